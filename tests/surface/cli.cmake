# SPDX-License-Identifier: Apache-2.0
# The tool as a user runs it, the examples, and README's: the same text as the file.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_executable(phasor_example_rotate ${PROJECT_SOURCE_DIR}/examples/rotate.cpp)
target_link_libraries(phasor_example_rotate PRIVATE phasor::phasor)
phasor_compile(phasor_example_rotate)
add_test(NAME surface.example_rotate COMMAND phasor_example_rotate)
set_tests_properties(surface.example_rotate PROPERTIES PASS_REGULAR_EXPRESSION "1000000: 1[.]2867457 0[.]5867586")

add_executable(phasor_example_rerotate ${PROJECT_SOURCE_DIR}/examples/rerotate.cpp)
target_link_libraries(phasor_example_rerotate PRIVATE phasor::phasor)
phasor_compile(phasor_example_rerotate)
add_test(NAME surface.example_rerotate COMMAND phasor_example_rerotate)
set_tests_properties(surface.example_rerotate PROPERTIES PASS_REGULAR_EXPRESSION "position 0: 1[.]0000000 1[.]0000000")

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
