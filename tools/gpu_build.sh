# SPDX-License-Identifier: Apache-2.0
# For tools/gpu_test.sh and tools/gpu_python.sh, which source it in the root: the library with its CUDA backend and the GPU tests' objects, by
# g++ and nvcc from the checkout and .carry/, in $build. What is newer than every source is not compiled again, so both scripts share it.
# They set: build, jobs, and say TEXT.

[ -d .carry/include ] || { echo "gpu: .carry is missing; run tools/make_carry.sh where the packages are" >&2; exit 2; }
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || { echo "gpu: there is no nvcc" >&2; exit 2; }

includes=(-Iinclude -Isrc -Itests -Ic -isystem .carry/include -isystem .carry/googletest/include -I.carry/googletest -isystem "$(dirname "$(dirname "$nvcc")")/include")
version=$(sed -n 's/^project(phasor VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# As cmake/compile.cmake and cmake/cuda.cmake.
flags=(-std=c++20 -O2 -fPIC -ffp-contract=off -fno-tree-vectorize -fno-tree-slp-vectorize -fopenmp -DFMT_HEADER_ONLY "-DPHASOR_VERSION=\"$version\"" "${includes[@]}")
device_flags=(-std=c++20 -O3 "-arch=sm_${CUDA_ARCH:-90}" --expt-relaxed-constexpr --fmad=false -Xcompiler=-ffp-contract=off,-fPIC -DFMT_HEADER_ONLY "${includes[@]}")

# Kernels of Hopper, as cmake/cuda.cmake.
hopper_flags=(-std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a --fmad=true --expt-relaxed-constexpr -Xcompiler=-fPIC "${includes[@]}")

compile() { # SOURCE: an object in $build
  local to=$build/$(tr / _ <<<"$1").o begin=$SECONDS
  if [ "$to" -nt "$build/newest" ]; then return; fi
  case $1 in
    src/cuda/attention/hopper/*.cu) cmake/hopper_nvcc.sh "$nvcc" "${hopper_flags[@]}" -c "$1" -o "$to" || { rm -f "$to"; return 1; } ;;
    *.cu) "$nvcc" "${device_flags[@]}" -c "$1" -o "$to" ;;
    *.c) gcc -std=c99 -O2 -fPIC -Iinclude -c "$1" -o "$to" ;;
    *) g++ "${flags[@]}" -c "$1" -o "$to" ;;
  esac && echo "seconds: $((SECONDS - begin)) $1"
}
export -f compile
export build nvcc
export FLAGS="${flags[*]@Q}" DEVICE_FLAGS="${device_flags[*]@Q}" HOPPER_FLAGS="${hopper_flags[*]@Q}"

compile_all() { # SOURCES... on standard input
  xargs -P "$jobs" -I{} bash -c 'eval "flags=($FLAGS)"; eval "device_flags=($DEVICE_FLAGS)"; eval "hopper_flags=($HOPPER_FLAGS)"; compile {} || exit 255' > "$build/log.txt" 2>&1 ||
    { say "FAIL: does not build"; grep -E 'error' "$build/log.txt" | head -20; exit 1; }
}

# The newest source, as a file of its age.
gpu_newest() {
  local newest
  newest=$(find include src c examples/engine tests/cuda tests/prepare tests/attention bench/gpu tools/gpu_build.sh cmake/hopper_nvcc.sh -type f ! -name '*.py' -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
  touch -r "$newest" "$build/newest"
}

# gpu_build [library | bench]: libphasor.a, `backend` and, unless only the library is asked for, the objects of the benchmarks and tests (bench: without
# those of tests). nvcc's files first: they are the slow ones. Who is short of time on the machine brings .carry/libphasor.a, as a build for it elsewhere (the foreign presets) made it from these sources.
gpu_build() {
  gpu_newest
  {
    find src/cuda -name '*.cu'
    if [ "${1:-}" != library ]; then find bench/gpu -name '*.cu'; fi
    if [ -z "${1:-}" ]; then
      find tests/cuda -name '*.cu' -o -name 'random_*.cpp' -o -name 'gpu_*.cpp'
      # The tests of attention, which gpu_attention runs with the kernels of the GPU; not what tests the CPU's own tiles and threads, nor what runs kernels on the host with emulated instructions.
      find tests/attention -name '*.cpp' ! -name cached_test.cpp ! -name threads_test.cpp ! -name workspace_test.cpp ! -name bias_tile_test.cpp ! -name gathered_test.cpp ! -name 'mma_*.cpp' ! -path '*/reference_tests/*'
      echo .carry/googletest/src/gtest-all.cc
      # The engine example, in C++ and, with the C API, in C.
      find examples/engine c -name '*.cpp' ! -name no_cuda.cpp -o -name '*.cu' -o -name '*.c'
    fi
    if [ ! -e .carry/libphasor.a ]; then find src -name '*.cpp' ! -path 'src/no_cuda/*'; fi
  } | compile_all || exit 1
  say "built in $SECONDS s; the slowest: $(sed -n 's/^seconds: //p' "$build/log.txt" | sort -rn | head -3 | tr '\n' ';')"
  rm -f "$build/libphasor.a"
  if [ -e .carry/libphasor.a ]; then cp .carry/libphasor.a "$build/"; else ar rcs "$build/libphasor.a" "$build"/src_*.o; fi
  # These come before the library in a link: of one that was built without CUDA, the part that says so then is not taken.
  backend=("$build"/src_cuda_*.cu.o)
}
