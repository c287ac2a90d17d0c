# SPDX-License-Identifier: Apache-2.0
# A user's program in C++, with and without exceptions, and one in C. Nothing here sets the language standard: the package must bring it.
enable_testing()
foreach(name consumer consumer_without_exceptions)
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/consumer.cpp)
  target_link_libraries(${name} PRIVATE phasor::phasor)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
target_compile_options(consumer_without_exceptions PRIVATE -fno-exceptions)
add_executable(consumer_c ${CMAKE_CURRENT_LIST_DIR}/consumer.c)
target_link_libraries(consumer_c PRIVATE phasor::c m)
add_test(NAME consumer_c COMMAND consumer_c)
if(TARGET phasor_c_objects)  # compiled along with this: as the build that runs it, so that ccache has its objects
  target_compile_options(phasor_c_objects PRIVATE ${LIBRARY_WARNINGS})
endif()
