# SPDX-License-Identifier: Apache-2.0
# Each public header compiled by itself, twice, without exceptions.
file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/phasor/*.hpp)
set(alone)
foreach(header ${headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  file(CONFIGURE OUTPUT alone/${name}.cpp CONTENT "#include \"${header}\"\n#include \"${header}\"  // twice: the guard works\n")
  list(APPEND alone ${CMAKE_CURRENT_BINARY_DIR}/alone/${name}.cpp)
endforeach()
add_library(phasor_headers_alone OBJECT ${alone})
target_link_libraries(phasor_headers_alone PRIVATE phasor::phasor)
target_compile_options(phasor_headers_alone PRIVATE -fno-exceptions)
phasor_compile(phasor_headers_alone)
