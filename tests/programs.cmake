# SPDX-License-Identifier: Apache-2.0
# How a program of tests is compiled, linked and run.

# A build folder that has the tests compiled by the same standard library: their objects are linked with this build's library
# and not compiled again. That is how clang and the sanitizers get every test for the price of the library, which is what is under test.
set(PHASOR_TEST_OBJECTS "" CACHE PATH "Build folder whose compiled tests are taken")

if(CMAKE_CROSSCOMPILING)
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  if(EMSCRIPTEN)
    set(gtest_disable_pthreads ON)
  endif()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_CXX_STANDARD 20)  # the same GoogleTest on both sides of its headers
  add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
  set(gtest gtest_main)
else()
  find_package(GTest REQUIRED)
  set(gtest GTest::gtest GTest::gtest_main)
endif()
find_package(Threads REQUIRED)

# Tests see src/ and tests/: what is inside is tested where it is.
function(phasor_compile_test target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE phasor::phasor phasor_third_party)
  phasor_compile(${target})
  # What is tested is the library; its tests are to build fast. At -O0 emscripten's clang takes two thirds of the time, g++ at -Og half of what -O1 takes.
  target_compile_options(${target} PRIVATE $<IF:$<BOOL:${EMSCRIPTEN}>,-O0,-Og>)
endfunction()

# What nearly every test includes, parsed once: a fifth of a test's compile time (5.9 to 4.6 s). ccache keeps what was compiled with it under the sloppiness
# pch_defines only, which the Makefile sets together with CCACHE_COMMENTS: without that, ccache hands back a file precompiled before a comment of ours was
# changed, and `#pragma once` then takes the header for another one. Not for WebAssembly, nor for the sanitizers' few files, nor
# where each test is compiled alone: that sees to it that it includes what it uses.
set(precompiled OFF)
if(phasor_compiles_together AND NOT PHASOR_TEST_OBJECTS AND NOT EMSCRIPTEN AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(precompiled ON)
  file(CONFIGURE OUTPUT test_headers.cpp CONTENT "// only its precompiled headers are wanted\n")
  add_library(phasor_test_headers STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp)
  phasor_compile_test(phasor_test_headers)
  target_link_libraries(phasor_test_headers PRIVATE ${gtest} Threads::Threads)
  target_precompile_headers(phasor_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <cmath> <cstdint> <cstring> <fstream> <functional> <limits>
                            <map> <numeric> <optional> <random> <span> <sstream> <string> <string_view> <utility> <variant> <vector> <phasor/phasor.hpp>)
endif()

# The one file that knows where the checkout is: a definition for all would make a compiler cache miss them all in the next checkout.
add_library(phasor_golden_file STATIC EXCLUDE_FROM_ALL golden_file.cpp)
target_compile_definitions(phasor_golden_file PRIVATE GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
phasor_compile_test(phasor_golden_file)

# What attention is held against. Sanitizers leave it alone: they would take ten times as long over it.
file(GLOB reference CONFIGURE_DEPENDS attention/reference/*.cpp)
if(PHASOR_TEST_OBJECTS)  # g++ and clang name constrained constructors differently: the reference comes from where the tests come from
  add_library(phasor_reference STATIC IMPORTED)
  set_target_properties(phasor_reference PROPERTIES IMPORTED_LOCATION ${PHASOR_TEST_OBJECTS}/tests/libphasor_reference.a)
else()
  phasor_together(reference ${CMAKE_CURRENT_SOURCE_DIR})
  add_library(phasor_reference STATIC EXCLUDE_FROM_ALL ${reference})
  phasor_compile_test(phasor_reference)
  target_compile_options(phasor_reference PRIVATE -O2 -fno-sanitize=all)
endif()

# These have a file of their own. Of what another build has compiled, these are compiled again: one has kernels in itself, one a malloc unless sanitized.
set(apart "/bias_tile_test|/workspace_test|attention/content_test|hopper/hopper_(values_|call_|backward_call_)?test")

# phasor_objects(OUT NAME SOURCES...): the sources of a program, or where another build has compiled them. Tests of a folder that have the same options
# are one file for the compiler.
function(phasor_objects out name)
  set(objects)
  set(groups)
  foreach(source ${ARGN})
    file(REAL_PATH ${source} source)
    file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    if(path MATCHES "${apart}" OR NOT phasor_compiles_together)
      if(NOT PHASOR_TEST_OBJECTS OR path MATCHES "/bias_tile_test" OR (path MATCHES "/workspace_test" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize"))
        list(APPEND objects ${source})
      else()
        list(APPEND taken ${path})
      endif()
    else()
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      cmake_path(GET path PARENT_PATH group)
      if(options)
        string(MD5 hash "${options}")
        string(SUBSTRING ${hash} 0 4 hash)
        string(APPEND group "_${hash}")
      endif()
      string(REGEX REPLACE "[/.]+" "_" group "${group}")
      list(APPEND groups ${group})
      list(APPEND sources_of_${group} ${source})
      set(options_of_${group} "${options}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    set(path together/${name}_${group}.cpp)
    if(PHASOR_TEST_OBJECTS)
      list(APPEND taken ${path})
    else()
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${path})
      list(JOIN sources_of_${group} ":" sources)
      add_custom_command(OUTPUT ${file} DEPENDS ${sources_of_${group}} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/together_file.cmake VERBATIM
                         COMMAND ${CMAKE_COMMAND} -DOUT=${file} -DSOURCES=${sources} -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/together_file.cmake)
      if(options_of_${group})
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options_of_${group}}")
      endif()
      list(APPEND objects ${file})
    endif()
  endforeach()
  foreach(path ${taken})
    set(object ${PHASOR_TEST_OBJECTS}/tests/CMakeFiles/${name}.dir/${path}.o)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# phasor_test_program(NAME SOURCES...)
function(phasor_test_program name)
  phasor_objects(objects ${name} ${ARGN})
  add_executable(${name} ${objects})
  phasor_compile_test(${name})
  target_link_libraries(${name} PRIVATE phasor_golden_file ${gtest} Threads::Threads)
  if(precompiled)
    target_precompile_headers(${name} REUSE_FROM phasor_test_headers)
  endif()
  if(PHASOR_TEST_OBJECTS)  # this library first: where both have an inline function, its own is taken
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS $<TARGET_FILE:phasor>)
    target_link_options(${name} BEFORE PRIVATE -Wl,--whole-archive $<TARGET_FILE:phasor> -Wl,--no-whole-archive)
  endif()
endfunction()

include(sweeps.cmake)
set(left_out_here)  # of those, what an emulator's build has: make test-foreign and test-wasm say so

# phasor_run_tests(NAME SECONDS SOURCES...): a test of ctest for each of the program's, with a limit. In an emulator, where starting the program
# is most of the time (2 s in Node), one for each folder of sources, and one for what skips itself.
function(phasor_run_tests name seconds)
  list(JOIN sweeps ":" without)
  if(NOT CMAKE_CROSSCOMPILING)
    set(filter)
    if(PHASOR_TEST_OBJECTS)  # the dev build has run the sweeps
      set(filter TEST_FILTER -${without})
    endif()
    gtest_discover_tests(${name} ${filter} DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${seconds})
    return()
  endif()
  set(folders)
  foreach(source ${ARGN})
    file(STRINGS ${source} tests REGEX "^TEST(_F)?[(]")
    list(TRANSFORM tests REPLACE "^TEST(_F)?[(]([A-Za-z_0-9]+), *([A-Za-z_0-9]+)[)].*" "\\2.\\3")
    set(kept ${tests})
    list(REMOVE_ITEM kept ${sweeps})
    set(skipped ${tests})
    if(kept)
      list(REMOVE_ITEM skipped ${kept})
    endif()
    list(APPEND left_out_here ${skipped})
    list(TRANSFORM kept REPLACE "[.].*" ".*" OUTPUT_VARIABLE suites)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    list(APPEND folders ${folder})
    list(APPEND suites_of_${folder} ${suites})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    set(suites ${suites_of_${folder}})
    list(REMOVE_DUPLICATES suites)
    if("Amx.*" IN_LIST suites)  # all skip themselves where there is no AMX, and the program still exits with 0
      list(REMOVE_ITEM suites "Amx.*")
      add_test(NAME cpu.Amx COMMAND ${name} --gtest_filter=Amx.*-${without})
      set_tests_properties(cpu.Amx PROPERTIES TIMEOUT 900 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
    endif()
    if(suites)
      list(JOIN suites ":" filter)
      add_test(NAME tests.${folder} COMMAND ${name} --gtest_filter=${filter}-${without})
      list(LENGTH suites count)  # the long ones first, or one of them would run alone at the end
      if(name STREQUAL phasor_attention_tests)
        math(EXPR count "100 + ${count}")
      endif()
      set_tests_properties(tests.${folder} PROPERTIES TIMEOUT 2400 COST ${count})
    endif()
  endforeach()
  set(left_out_here ${left_out_here} PARENT_SCOPE)
endfunction()
