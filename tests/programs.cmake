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
  set(slowness 4)  # an emulator
else()
  find_package(GTest REQUIRED)
  set(gtest GTest::gtest GTest::gtest_main)
  set(slowness 1)
endif()
find_package(Threads REQUIRED)

# Tests see src/ and tests/: what is inside is tested where it is.
function(phasor_compile_test target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE phasor::phasor phasor_third_party)
  phasor_compile(${target})
  target_compile_options(${target} PRIVATE -O1)  # what is tested is the library; its tests are to build fast
endfunction()

# The one file that knows where the checkout is: a definition for all would make a compiler cache miss them all in the next checkout.
add_library(phasor_golden_file STATIC EXCLUDE_FROM_ALL golden_file.cpp)
target_compile_definitions(phasor_golden_file PRIVATE GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
phasor_compile_test(phasor_golden_file)

# What attention is held against. Sanitizers leave it alone: they would take ten times as long over it.
file(GLOB reference CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/attention/reference*.cpp)
add_library(phasor_reference STATIC EXCLUDE_FROM_ALL ${reference})
phasor_compile_test(phasor_reference)
target_compile_options(phasor_reference PRIVATE -O2 -fno-sanitize=all)

# phasor_objects(OUT NAME SOURCES...): the sources of a program, or where another build has compiled them.
function(phasor_objects out name)
  set(objects)
  foreach(source ${ARGN})
    file(REAL_PATH ${source} source)
    file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    if(NOT PHASOR_TEST_OBJECTS OR path MATCHES "/bias_tile_test")  # that one has kernels in itself
      list(APPEND objects ${source})
    else()
      set(object ${PHASOR_TEST_OBJECTS}/tests/CMakeFiles/${name}.dir/${path}.o)
      set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
      list(APPEND objects ${object})
    endif()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# phasor_test_program(NAME SOURCES...)
function(phasor_test_program name)
  phasor_objects(objects ${name} ${ARGN})
  add_executable(${name} ${objects})
  phasor_compile_test(${name})
  target_link_libraries(${name} PRIVATE phasor_golden_file ${gtest} Threads::Threads)
  if(PHASOR_TEST_OBJECTS)  # this library first: where both have an inline function, its own is taken
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS $<TARGET_FILE:phasor>)
    target_link_options(${name} BEFORE PRIVATE -Wl,--whole-archive $<TARGET_FILE:phasor> -Wl,--no-whole-archive)
  endif()
endfunction()

# What an emulator does not run, as patterns of GoogleTest. Nothing of it depends on the machine in a way that the rest does not: these
# are the long sweeps over inputs, which run natively in make test on either architecture.
set(emulator_leaves_out AxesModels.every_dtype*)

# phasor_run_tests(NAME SECONDS): a test of ctest for each of the program's, with a limit.
function(phasor_run_tests name seconds)
  math(EXPR timeout "${seconds} * ${slowness}")
  set(filter *)
  if(CMAKE_CROSSCOMPILING)
    list(JOIN emulator_leaves_out ":" left_out)
    set(filter *-${left_out})
    if(name STREQUAL phasor_attention_tests)
      set(filter attention_scheme*)
    endif()
  endif()
  gtest_discover_tests(${name} TEST_FILTER "${filter}" DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${timeout})
endfunction()
