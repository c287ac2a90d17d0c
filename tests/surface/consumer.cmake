# SPDX-License-Identifier: Apache-2.0
# A user's program, built with and without exceptions. Nothing here sets the language standard: the package must bring it.
enable_testing()
foreach(name consumer consumer_without_exceptions)
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/consumer.cpp)
  target_link_libraries(${name} PRIVATE phasor::phasor)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
target_compile_options(consumer_without_exceptions PRIVATE -fno-exceptions)
