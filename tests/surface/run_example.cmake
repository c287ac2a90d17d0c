# SPDX-License-Identifier: Apache-2.0
# cmake -DEXPECTED=REGEX -DPROGRAM=LIST -P run_example.cmake: the program and its arguments must succeed and print what EXPECTED matches. (ctest's own
# PASS_REGULAR_EXPRESSION does not look at the exit status.)
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
message("${out}")
if(NOT status STREQUAL "0")
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
if(NOT out MATCHES "${EXPECTED}")
  message(FATAL_ERROR "${PROGRAM} printed nothing that matches: ${EXPECTED}")
endif()
