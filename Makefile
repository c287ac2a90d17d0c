# SPDX-License-Identifier: Apache-2.0
# The commands of Phasor. Each installs what it misses, then builds and runs; `make help` lists them.
JOBS ?= $(shell nproc)
# What was compiled before, in whatever checkout, is not compiled again.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
# What it asks for to keep what was compiled with precompiled headers.
export CCACHE_SLOPPINESS := pch_defines,time_macros
# A changed comment changes a header, and a precompiled one knows its headers by their text.
export CCACHE_COMMENTS := 1
endif
FUZZ_SECONDS ?= 120
FOREIGN := $(if $(filter aarch64,$(shell uname -m)),foreign-x86_64,foreign-aarch64)
FORMATTED = $(shell git ls-files '*.hpp' '*.cpp' '*.inl' '*.cu' '*.h' '*.c')
PREFIX ?= /usr/local
PACKAGES := install debian conan reproducible workflows
CHECKS := lint check-c test-clang test-asan test-tsan test-foreign test-wasm test-cuda-build

# $(call build,PRESET): configure quietly, build.
build = cmake --preset $(1) --log-level=WARNING && cmake --build --preset $(1) -j $(JOBS)
# Every snippet of README and of the site's pages, on what make test has built.
snippets = build/venv/bin/python -P -m pytest -q -p no:cacheprovider tests/docs
# The core by Emscripten, the page around it, and what they weigh.
playground = $(call build,playground) && web/page/build.sh && python3 tools/web_sizes.py
# $(call web_tests,OPTIONS): the playground in Chromium, its numbers beside the native tool's; on build/dev and what make playground has built.
web_tests = tools/python/python_venv.sh venv-web tests/web/requirements.txt && cmake --build build/dev -j $(JOBS) --target phasor_web && \
  build/venv-web/bin/python -P -m pytest -c tests/web/pytest.ini $(1) tests/web
# Where the playground has been built: its short set, on what changed since. Elsewhere make test says so; make check builds it.
web_short = if [ -f build/playground/site/index.html ]; then $(playground) && $(call web_tests,-m short); else echo "playground: not built here, and not tried in a browser: make test-web"; fi
# $(call build_and_test,PRESET)
build_and_test = $(call build,$(1)) && ctest --preset $(1) -j $(JOBS)

.PHONY: help demo install test test-python test-oldest-torch test-distributed test-engines test-gpu test-gpu-python test-cuda-wheel test-packages check bench bench-gpu bench-python lab fuzz wheels docs test-docs gallery playground test-web test-exhaustive check-alone format lint clean
.PHONY: setup-% check-includes check-formulas check-format check-tidy budgets $(CHECKS)

help:  ## list the commands
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: setup-demo  ## build the release and run phasor demo
	@$(call build,release) && build/release/phasor demo

install: setup-demo  ## build the release and install it under PREFIX (/usr/local), all of it below DESTDIR (nothing)
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX="$(PREFIX)" && cmake --build --preset release -j $(JOBS)
	@DESTDIR="$(DESTDIR)" cmake --install build/release

test: setup-test  ## build and run every test, C++ and Python; the playground in a browser where it was built (make test-web builds it)
	@tools/timed.sh --begin
	@tools/timed.sh "build" $(SHELL) -c '$(call build,dev)'
	@tools/timed.sh "C++ tests" ctest --preset dev -j $(JOBS)
	@tools/python/python_test.sh
	@tools/timed.sh "snippets of documents" $(snippets)
	@tools/timed.sh "playground, short set" $(SHELL) -c '$(web_short)'
	@tools/timed.sh --all "make test"

test-engines: setup-test  ## vLLM and SGLang on the CPU, with our plugins and without (environments of 3.5 and 1.9 GB); ggml with our backend
	@tools/python/engines_test.sh
	@tools/python/sglang_test.sh
	@tools/python/ggml_test.sh

test-python: setup-test  ## only the tests of the Python package, on its wheel, in virtual environments under build/
	@tools/python/python_test.sh

test-oldest-torch: setup-test  ## the tests of PyTorch and attention with the oldest PyTorch that is supported (on x86-64 its package brings CUDA: some GB)
	@tools/python/python_venv.sh venv tests/python/requirements.txt
	@tools/python/python_venv.sh venv-torch-oldest tests/python/requirements-torch-oldest.txt
	@tools/python/python_wheel.sh test venv
	@tools/timed.sh "oldest PyTorch" tools/python/python_test.sh --oldest-torch

test-distributed: setup-test  ## phasor.distributed on 2, 3 and 4 processes: every scheme, way and order, and the set of make test
	@tools/python/python_venv.sh venv tests/python/requirements.txt
	@tools/python/python_wheel.sh test venv
	@tools/timed.sh "distributed" tools/python/python_test.sh --distributed tests/python/distributed/all_of_distributed.py

check: setup-check  ## lint, clang, sanitizers, foreign machine, WebAssembly, CUDA where nvcc is
	@tools/timed.sh --begin
	@for part in $(CHECKS); do tools/timed.sh $$part $(MAKE) --no-print-directory $$part || exit 1; done
	@tools/timed.sh --all "make check"

bench: setup-bench  ## run the benchmarks: a table here, JSON in out/
	@$(call build,bench)
	@mkdir -p out
	@for b in build/bench/bench_*; do \
	  $$b --benchmark_min_time=0.03 --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true \
	    --benchmark_out=out/$$(basename $$b).json --benchmark_out_format=json >/dev/null || exit 1; \
	  python3 tools/bench_table.py out/$$(basename $$b).json || exit 1; done

bench-python: setup-bench-python  ## the Python package beside its peers, each in a process of its own: a table here, JSON in out/
	@tools/python/python_venv.sh venv-bench bench/python/requirements.txt
	@tools/python/python_wheel.sh release venv-bench
	@build/venv-bench/bin/python bench/python/run.py
	@build/venv-bench/bin/python bench/python/attention.py
	@build/venv-bench/bin/python bench/python/distributed.py

lab: setup-lab  ## models trained with each position encoding, measured at longer lengths; LAB="--quick" (a minute, the default), "run --data FOLDER", "list", "report", ...
	@tools/python/python_venv.sh venv-lab lab/requirements.txt
	@tools/python/python_wheel.sh release venv-lab
	@build/venv-lab/bin/python -m lab $(or $(LAB),--quick)

fuzz: setup-fuzz  ## run every fuzz harness for FUZZ_SECONDS (120): corpus and crashes stay in build/fuzz
	@$(call build,fuzz)
	@mkdir -p build/fuzz/crashes
	@for f in build/fuzz/fuzz/fuzz_*; do [ -x $$f ] && [ -f $$f ] || continue; name=$${f##*/fuzz_}; mkdir -p build/fuzz/corpus/$$name; \
	  echo "fuzz: $$name for $(FUZZ_SECONDS) s"; \
	  $$f -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/crashes/$$name- build/fuzz/corpus/$$name fuzz/corpus/$$name || exit 1; done

wheels: setup-wheels  ## the wheels and the sdist as they are published, audited, in build/dist; WHEELS="sdist x86_64 aarch64", PYTHON=python3.12 for 3.12 and newer
	@tools/python/wheels.sh $(WHEELS)

docs: setup-docs  ## the documentation site, build/docs/html: works offline, with search
	@tools/docs/build.sh

test-docs: setup-test  ## every snippet of README and the site's pages, compiled or run, on build/dev and build/venv
	@$(snippets)

gallery: setup-gallery  ## draw docs/gallery again, and the completions and man page from --help
	@$(call build,release) && python3 tools/make_gallery.py build/release/phasor && python3 tools/make_cli_docs.py build/release/phasor

playground: setup-playground  ## the page of what positions do, build/playground/site: index.html, and phasor-playground.html, one file that works offline
	@$(playground)

test-web: setup-test setup-playground  ## every test of the playground in Chromium, and its budgets
	@$(call build,dev) && $(playground) && $(call web_tests,)

test-gpu:  ## every test that needs a GPU, and the times of its kernels: on a machine with nvcc, g++ and what tools/make_carry.sh brought
	@tools/gpu_test.sh

bench-gpu:  ## the kernels on a GPU beside a copy, their steps and peers: tables here, JSON in out/; BENCH_GPU="--only NAME --flashinfer LIBRARY ..."
	@tools/gpu_bench.sh $(BENCH_GPU)

test-gpu-python:  ## the Python package on a GPU: on a machine with PyTorch, nvcc, g++ and what tools/make_carry.sh brought
	@tools/gpu_python.sh

test-cuda-wheel: setup-test  ## build the wheel of phasor-cuda13 where nvcc is, and try it without a GPU
	@tools/python/python_venv.sh venv tests/python/requirements.txt
	@tools/python/python_wheel.sh test venv
	@tools/python/cuda_wheel_test.sh build/venv/bin/python

test-packages: setup-packages  ## build every package (docs/packages.md) and use it: installed trees, Debian, Conan, the same bytes twice
	@tools/timed.sh --begin
	@for part in $(PACKAGES); do tools/timed.sh "package: $$part" tools/packages/$$part.sh || exit 1; done
	@tools/timed.sh --all "make test-packages"

test-exhaustive: setup-test  ## the long sweeps against MPFR
	@$(call build,exhaustive) && build/exhaustive/tests/phasor_exhaustive

format: setup-check  ## format the sources in place
	@clang-format-19 -i $(FORMATTED)

lint: setup-check check-includes check-formulas budgets check-format check-tidy  ## dependencies, formulas, budgets, format, clang-tidy

check-includes:
	@python3 tools/check_includes.py

check-formulas:
	@python3 tools/check_formulas.py

budgets:
	@python3 tools/budgets.py

check-format:
	@clang-format-19 --dry-run -Werror $(FORMATTED) && echo "format: clean"

# What changed since the last clean run (tools/check_tidy.py): all of it takes 15 to 20 minutes of processor time. TIDY="--all", "--since COMMIT" or names of files.
check-tidy:
	@cmake --preset alone --log-level=WARNING >/dev/null && cmake --preset clang --log-level=WARNING >/dev/null
	@python3 tools/check_tidy.py build/clang $(JOBS) $(TIDY)

check-alone: setup-test  ## compile each source and each test alone: whether each includes what it uses (clang-tidy sees it of what changed)
	@$(call build,alone)

# The library under the sanitizers, with the tests as the dev build compiled them: tests/programs.cmake. To look for leaks at its end takes a process
# four seconds on a Neoverse-N1, so that is done by two processes alone: what reads files and makes objects, and attention's calls.
LEAKS := Gguf*:Hf*:Json*:Safetensors*:Permute*:Learned*:Rotary*:Sinusoidal*:bias_spec*:Watched*:attention_call*:attention_scheme*
test-asan:
	@$(call build,dev) && $(call build_and_test,asan)
	@for program in phasor_tests phasor_attention_tests; do build/asan/tests/$$program --gtest_brief=1 --gtest_filter='$(LEAKS)' || exit 1; done

# Only what has threads.
test-tsan:
	@cmake --preset tsan --log-level=WARNING && cmake --build --preset tsan -j $(JOBS) --target phasor_thread_tests
	@build/tsan/tests/phasor_thread_tests --gtest_brief=1

# The library by clang, with the tests as the dev build compiled them.
test-clang:
	@$(call build,dev) && cmake --preset clang --log-level=WARNING && cmake --build --preset clang -j $(JOBS) --target phasor_all_tests
	@ctest --preset clang -j $(JOBS)

# $(call left_out,PRESET): which tests the emulator did not run (tests/sweeps.cmake says why).
left_out = sed 's/;/ /g; s/^/left out in the emulator, by tests\/sweeps.cmake: /' build/$(1)/left_out.txt

# Every test for the other architecture: all compiled, the fast ones run.
test-foreign:
	@$(call build_and_test,$(FOREIGN))
	@$(call left_out,$(FOREIGN))

# And the playground's module and page, with the short set of its tests in a browser.
test-wasm:
	@$(call build_and_test,wasm)
	@$(call left_out,wasm)
	@$(call build,dev) && $(playground) && $(call web_tests,-m short)

# bindgen reads the headers of C, and the binary interface is that of the last release.
check-c:
	@$(call build,dev) && tools/check_c.sh

# Every .cu file, and the proof's half that needs no GPU, on the library of the dev build.
test-cuda-build:
	@$(call build,dev) && tools/cuda_proof.sh

clean:  ## remove what was built
	rm -rf build out

setup-%:
	@tools/setup.sh $*
