# SPDX-License-Identifier: Apache-2.0
# The CUDA backend inside of the library, and the programs that test it on a GPU: cuda_proof (src/math gives the same bits there) and
# gpu_rotary and gpu_operations (so do the rotary functions, and all others); gpu_hopper, gpu_hopper_backward, gpu_mma and gpu_rotated (attention there); gpu_decode (over caches); gpu_large (tensors of more than 2^31 elements); gpu_rows (sinusoids and cos_sin at every size).
enable_language(CUDA)
phasor_refuse_old_gpus(${CMAKE_CUDA_ARCHITECTURES})  # `native` and `all` are numbers now
find_package(CUDAToolkit REQUIRED)
# --fmad=false and -ffp-contract=off: the rotation is never fused, on either side. CMake 3.25 does not know the standards of nvcc 13.
set(phasor_cuda_options $<$<COMPILE_LANGUAGE:CUDA>:--std=c++20;--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off>)
target_compile_options(phasor PRIVATE ${phasor_cuda_options})
target_link_libraries(phasor PRIVATE $<LINK_ONLY:CUDA::cudart_static>)  # its headers are nvcc's own: all else compiles as without CUDA
# Kernels of Hopper: its instructions are those of sm_90a, whatever else is built for, and code that no other device runs. Attention has no bits to
# keep, so multiplications and additions may be fused there.
file(GLOB_RECURSE hopper_sources CONFIGURE_DEPENDS src/cuda/attention/hopper/*.cu)
add_library(phasor_hopper OBJECT ${hopper_sources})
set_target_properties(phasor_hopper PROPERTIES CUDA_ARCHITECTURES OFF POSITION_INDEPENDENT_CODE ON
                                               CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/hopper_nvcc.sh)
target_include_directories(phasor_hopper PRIVATE include src)
target_compile_options(phasor_hopper PRIVATE --std=c++20 -gencode=arch=compute_90a,code=sm_90a --fmad=true --expt-relaxed-constexpr)
target_sources(phasor PRIVATE $<TARGET_OBJECTS:phasor_hopper>)
file(GLOB phasor_random_calls CONFIGURE_DEPENDS tests/cuda/random_*.cpp)
foreach(source proof gpu_rotary gpu_operations gpu_prepare gpu_large gpu_rows attention/gpu_hopper attention/gpu_hopper_backward attention/gpu_mma attention/gpu_rotated attention/gpu_decode)
  get_filename_component(program ${source} NAME)
  add_executable(${program} tests/cuda/${source}.cu ${phasor_random_calls})
  target_include_directories(${program} PRIVATE src tests)
  target_link_libraries(${program} PRIVATE phasor::phasor CUDA::cudart_static)
  target_compile_options(${program} PRIVATE ${phasor_cuda_options})
endforeach()
set_target_properties(proof PROPERTIES OUTPUT_NAME cuda_proof)
# The engine of examples/ with both of its devices.
set(engine examples/engine)
add_executable(gpu_engine ${engine}/engine.cpp ${engine}/model.cpp ${engine}/cpu.cpp ${engine}/cuda.cu)
target_link_libraries(gpu_engine PRIVATE phasor::phasor phasor_third_party CUDA::cudart_static)
target_compile_options(gpu_engine PRIVATE ${phasor_cuda_options})
