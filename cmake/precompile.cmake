# SPDX-License-Identifier: Apache-2.0
# What nearly every file reads (0.8 to 1.1 s each on a Neoverse-N1), read once: for the first build of a newcomer. Not in development and tests,
# where each file must name what it includes and a changed header must not compile everything again; not in a wheel.
# CMAKE_DISABLE_PRECOMPILE_HEADERS is CMake's own switch against it.
set(phasor_precompiles OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT PHASOR_BUILD_TESTS AND NOT PHASOR_EXHAUSTIVE AND NOT SKBUILD)
  set(phasor_precompiles ON)
endif()

function(phasor_precompile target)
  if(NOT phasor_precompiles)
    return()
  endif()
  # nlohmann-json in here would make reading it slower for every file, and save 2 s in some twenty.
  target_precompile_headers(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:<fmt/core.h$<ANGLE-R>>"
    "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/include/phasor/analysis.hpp>"
    "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/include/phasor/model.hpp>"
    "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/include/phasor/rotary.hpp>")
  foreach(header algorithm array cmath functional map memory optional span string string_view utility variant vector)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>")
  endforeach()
  # ccache keeps such files too when it is told that this is meant, and must then see comments: tests/programs.cmake says why.
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
                          "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_COMMENTS=1;${CMAKE_CXX_COMPILER_LAUNCHER}")
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
  endif()
endfunction()
