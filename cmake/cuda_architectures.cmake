# SPDX-License-Identifier: Apache-2.0
# Which GPUs CUDA code is made for. Left alone, nvcc 13 makes it for compute capability 7.5, which lacks instructions that kernels are written in
# (roundings to bfloat16, copies to shared memory, mma). Included before there is any target, since a target takes the list as it is then.
set(phasor_oldest_gpu 80)

# What the user says, by CMAKE_CUDA_ARCHITECTURES or CMake's own variable of the environment, or this list.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # Code for each family, and PTX that newer ones compile when they first meet it.
  set(phasor_gpus 80-real 90-real 100-real 120-real 80-virtual)
  if(NOT "$ENV{CUDAARCHS}" STREQUAL "")
    set(phasor_gpus $ENV{CUDAARCHS})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${phasor_gpus} CACHE STRING "GPUs that CUDA code is made for")
endif()

# Ends the configuration where one of them is too old. `all`, `all-major` and `native` stand for lists that CMake knows once CUDA is enabled.
function(phasor_refuse_old_gpus)
  foreach(name IN LISTS ARGN)
    if(name MATCHES "^(all|all-major|native)$")
      string(REPLACE "-" "_" which "${name}")
      string(TOUPPER "${which}" which)
      phasor_refuse_old_gpus(${CMAKE_CUDA_ARCHITECTURES_${which}})
    elseif(name MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS phasor_oldest_gpu)
      message(FATAL_ERROR "CUDA architecture ${name}: Phasor's kernels need ${phasor_oldest_gpu} or newer "
                          "(-DCMAKE_CUDA_ARCHITECTURES=90, say; without it they are made for 80, 90, 100 and 120)")
    endif()
  endforeach()
endfunction()
phasor_refuse_old_gpus(${CMAKE_CUDA_ARCHITECTURES})
