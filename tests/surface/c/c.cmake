# SPDX-License-Identifier: Apache-2.0
# The C API as others meet it: its headers alone in C99 and C++11, a program in C, what the shared library shows, Python's ctypes.
enable_language(C)
set(here ${CMAKE_CURRENT_LIST_DIR})

# Each header by itself, twice, and all of them after dlpack.h, whose types are then theirs.
file(GLOB c_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/phasor/c/*.h)
set(c_alone)
foreach(header phasor/phasor.h ${c_headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  file(CONFIGURE OUTPUT alone_c/${name}.c CONTENT "#include \"${header}\"\n#include \"${header}\"\ntypedef int not_empty;\n")
  list(APPEND c_alone ${CMAKE_CURRENT_BINARY_DIR}/alone_c/${name}.c)
endforeach()
file(CONFIGURE OUTPUT alone_c/as_cpp.cpp CONTENT "#include \"phasor/phasor.h\"\n")
add_library(phasor_c_headers_alone OBJECT ${c_alone} ${here}/with_dlpack.c ${CMAKE_CURRENT_BINARY_DIR}/alone_c/as_cpp.cpp)
set_target_properties(phasor_c_headers_alone PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF CXX_STANDARD 11 CXX_EXTENSIONS OFF)
target_include_directories(phasor_c_headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(phasor_c_headers_alone PRIVATE -Wall -Wextra -Wpedantic -Werror -Wno-unused-parameter)

# phasor_c_program(NAME SOURCE LIBRARIES...): of C99, with the shared library.
function(phasor_c_program name source)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(${name} PRIVATE phasor::c m ${ARGN})
endfunction()
phasor_c_program(phasor_c_demo ${here}/demo.c)
add_test(NAME surface.c.demo COMMAND phasor_c_demo ${here}/demo_config.json)
phasor_c_program(phasor_example_engine_c ${PROJECT_SOURCE_DIR}/examples/engine/engine.c phasor_engine_model)  # run beside engine.cpp
set_target_properties(phasor_example_engine_c PROPERTIES LINKER_LANGUAGE CXX)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME surface.c.symbols COMMAND Python3::Interpreter ${here}/symbols_test.py $<TARGET_FILE:phasor_c> ${PROJECT_SOURCE_DIR}/include/phasor/c)
add_test(NAME surface.c.ctypes COMMAND Python3::Interpreter ${here}/ctypes_test.py $<TARGET_FILE:phasor_c>)
