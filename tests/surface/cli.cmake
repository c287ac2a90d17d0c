# SPDX-License-Identifier: Apache-2.0
# The tool as a user runs it, the examples, and README's: the same text as the file.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# phasor_example(NAME EXPECTED ARGUMENTS...): a file of examples/, built and run.
function(phasor_example name expected)
  add_executable(phasor_example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.cpp)
  target_link_libraries(phasor_example_${name} PRIVATE phasor::phasor)
  phasor_compile(phasor_example_${name})
  add_test(NAME surface.example_${name} COMMAND phasor_example_${name} ${ARGN})
  set_tests_properties(surface.example_${name} PROPERTIES PASS_REGULAR_EXPRESSION ${expected})
endfunction()

phasor_example(rotate "1000000: 1[.]2867457 0[.]5867586")
phasor_example(rerotate "position 0: 1[.]0000000 1[.]0000000")
phasor_example(read_model "layer 1: base 500000, amplitude 1, slowest pair" ${PROJECT_SOURCE_DIR}/tests/golden/gguf/llama-3.1.gguf)

add_test(NAME surface.readme COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/readme_test.py ${PROJECT_SOURCE_DIR})
if(TARGET phasor_cli)
  add_test(NAME surface.cli COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli_test.py $<TARGET_FILE:phasor_cli>)
  add_test(NAME surface.cli_models COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli_models_test.py $<TARGET_FILE:phasor_cli>)
  add_test(NAME surface.cli_golden
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli_golden_test.py $<TARGET_FILE:phasor_cli> ${PROJECT_SOURCE_DIR}/tests/golden/cli)
  add_test(NAME surface.cli_plot COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli_plot_test.py $<TARGET_FILE:phasor_cli>)
  add_test(NAME surface.cli_docs COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli_docs_test.py $<TARGET_FILE:phasor_cli> ${PROJECT_SOURCE_DIR})
  set_tests_properties(surface.cli surface.cli_models surface.cli_golden surface.cli_docs PROPERTIES TIMEOUT 120)
  set_tests_properties(surface.cli_plot PROPERTIES TIMEOUT 300)
endif()
