# SPDX-License-Identifier: Apache-2.0
# cmake -DEXPECTED=REGEX -P run_example.cmake -- PROGRAM ARGUMENTS...: it must succeed and print what EXPECTED matches. (ctest's own
# PASS_REGULAR_EXPRESSION does not look at the exit status.)
cmake_minimum_required(VERSION 3.25)

set(command)
foreach(i RANGE ${CMAKE_ARGC})
  if(after_dashes AND i LESS CMAKE_ARGC)
    list(APPEND command ${CMAKE_ARGV${i}})
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(after_dashes TRUE)
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
message("${out}")
if(NOT status STREQUAL "0")
  message(FATAL_ERROR "${command} ended with ${status}")
endif()
if(NOT out MATCHES "${EXPECTED}")
  message(FATAL_ERROR "${command} printed nothing that matches: ${EXPECTED}")
endif()
