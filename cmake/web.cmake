# SPDX-License-Identifier: Apache-2.0
# phasor_figures: what the tool and the playground show, as numbers and words. phasor_web_core: the playground's requests over it. phasor_web: the
# core as a program that answers lines, or, by Emscripten, as the page's phasor.wasm. Built where something asks for them.
file(GLOB figure_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/figures/*.cpp)
phasor_together(figure_sources ${PROJECT_SOURCE_DIR})
add_library(phasor_figures STATIC EXCLUDE_FROM_ALL ${figure_sources})
target_include_directories(phasor_figures PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(phasor_figures PUBLIC phasor::phasor phasor_third_party phasor_fmt)

file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/core/*.cpp)
list(FILTER core_sources EXCLUDE REGEX "/(lines|exports)\\.cpp$")
phasor_together(core_sources ${PROJECT_SOURCE_DIR})
add_library(phasor_web_core STATIC EXCLUDE_FROM_ALL ${core_sources})
target_link_libraries(phasor_web_core PUBLIC phasor_figures)

foreach(target phasor_figures phasor_web_core)
  phasor_compile(${target})
  phasor_precompile(${target})
  if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)  # as the tool: words and lists
    target_compile_options(${target} PRIVATE -O1)
  endif()
endforeach()

if(EMSCRIPTEN)  # figures and fmt throw nothing but a lack of memory, which core.cpp catches: without their landing pads a fifth of them
  target_compile_options(phasor_figures PRIVATE -fignore-exceptions)
  target_compile_options(phasor_fmt PRIVATE -fignore-exceptions)
endif()

set(core_exports)
foreach(name allocate release call response response_bytes blocks block block_bytes)
  list(APPEND core_exports phasor_web_${name})
endforeach()
if(EMSCRIPTEN)
  add_executable(phasor_web EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/web/core/exports.cpp)
  set_target_properties(phasor_web PROPERTIES OUTPUT_NAME phasor SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/core)
  # A module by itself: core.js is all of its surroundings, and there are no files.
  list(TRANSFORM core_exports REPLACE "(.+)" "-Wl,--export=\\1")
  target_link_options(phasor_web PRIVATE -Oz -sSTANDALONE_WASM=1 --no-entry -sFILESYSTEM=0 ${core_exports})
  add_custom_command(TARGET phasor_web POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/web/core/core.js ${PROJECT_BINARY_DIR}/core)
else()
  add_executable(phasor_web EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/web/core/lines.cpp ${PROJECT_SOURCE_DIR}/web/core/exports.cpp)
endif()
target_link_libraries(phasor_web PRIVATE phasor_web_core)
phasor_compile(phasor_web)
