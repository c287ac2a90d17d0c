# SPDX-License-Identifier: Apache-2.0
# The tool as a user runs it, and README's example: the same text as the file.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

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
