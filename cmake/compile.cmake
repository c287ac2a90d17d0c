# SPDX-License-Identifier: Apache-2.0
# How every target of this project is compiled. Contraction is off because fusing changes bits; fast-math is never on.
function(phasor_compile target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 turns x c - y s, x s + y c in neighbouring lanes into vfmaddsub although contraction is off. The kernels are vectorised by hand.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-tree-vectorize;-fno-tree-slp-vectorize>)
  endif()
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>)
  endif()
  if(PHASOR_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
endfunction()
