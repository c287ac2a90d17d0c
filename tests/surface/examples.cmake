# SPDX-License-Identifier: Apache-2.0
# Every file of examples/, built as a user builds it and run; the numbers were worked out elsewhere.

# phasor_example(NAME EXPECTED ARGUMENTS...)
function(phasor_example name expected)
  add_executable(phasor_example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.cpp)
  target_link_libraries(phasor_example_${name} PRIVATE phasor::phasor)
  phasor_compile(phasor_example_${name})
  if(TARGET phasor_all_tests)
    add_dependencies(phasor_all_tests phasor_example_${name})
  endif()
  set(program ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:phasor_example_${name}> ${ARGN})  # as one argument: cmake would take an emulator's -L
  add_test(NAME examples.${name} COMMAND ${CMAKE_COMMAND} "-DEXPECTED=${expected}" "-DPROGRAM=${program}" -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run_example.cmake)
  set_tests_properties(examples.${name} PROPERTIES TIMEOUT 120)
endfunction()

phasor_example(attention "last number of out -0[.]02424., d table.0. -0[.]00406")  # the formula in NumPy, in double: -0.0242446, -0.0040677
phasor_example(read_model "layer 1: base 500000, amplitude 1, slowest pair" ${PROJECT_SOURCE_DIR}/tests/golden/gguf/llama-3.1.gguf)
phasor_example(rerotate "position 0: 1[.]0000000 1[.]0000000")
phasor_example(rotate "1000000: 1[.]2867457 0[.]5867586")

# The engine: tests/python/hf/test_engine_example.py runs it beside transformers. With CUDA it is gpu_engine (cmake/cuda.cmake), which tests/engine/check.py runs.
set(engine ${PROJECT_SOURCE_DIR}/examples/engine)
add_library(phasor_engine_model STATIC ${engine}/model.cpp ${engine}/cpu.cpp ${engine}/no_cuda.cpp)
target_link_libraries(phasor_engine_model PRIVATE phasor_third_party)
phasor_compile(phasor_engine_model)
add_executable(phasor_example_engine ${engine}/engine.cpp)
target_link_libraries(phasor_example_engine PRIVATE phasor::phasor phasor_engine_model)
phasor_compile(phasor_example_engine)

file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
foreach(example ${examples})
  get_filename_component(name ${example} NAME_WE)
  if(NOT TARGET phasor_example_${name})
    message(FATAL_ERROR "examples/${name}.cpp is compiled by nobody: wanted a line in tests/surface/examples.cmake")
  endif()
endforeach()
