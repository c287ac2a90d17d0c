# SPDX-License-Identifier: Apache-2.0
# The CUDA proof: tests/cuda/*.cu become cuda_proof, which shows that src/math gives the same bits on a GPU.
enable_language(CUDA)
file(GLOB cuda_sources CONFIGURE_DEPENDS tests/cuda/*.cu)
if(cuda_sources)
  add_executable(cuda_proof ${cuda_sources})
  target_include_directories(cuda_proof PRIVATE src tests)
  target_link_libraries(cuda_proof PRIVATE phasor::phasor)
  # --fmad=false and -ffp-contract=off: the rotation is never fused, on either side. CMake 3.25 does not know the standards of nvcc 13.
  target_compile_options(cuda_proof PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--std=c++20;--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off>)
endif()
