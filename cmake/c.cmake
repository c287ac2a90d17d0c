# SPDX-License-Identifier: Apache-2.0
# phasor::c, the C API: one shared library that shows phasor_* alone, with versions, and holds the C++ library inside.
if(SKBUILD)
  return()
endif()
file(GLOB_RECURSE c_sources CONFIGURE_DEPENDS c/*.cpp)
phasor_together(c_sources ${PROJECT_SOURCE_DIR}/c)
add_library(phasor_c_objects OBJECT ${c_sources})  # the tests take them, too
set_target_properties(phasor_c_objects PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(NOT EMSCRIPTEN)
  set_target_properties(phasor_c_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
target_include_directories(phasor_c_objects PRIVATE c)
target_link_libraries(phasor_c_objects PRIVATE phasor::phasor)
phasor_compile(phasor_c_objects)
if(EMSCRIPTEN)  # it has no shared libraries
  return()
endif()

add_library(phasor_c SHARED $<TARGET_OBJECTS:phasor_c_objects>)
add_library(phasor::c ALIAS phasor_c)
set_target_properties(phasor_c PROPERTIES EXPORT_NAME c LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                          LINK_DEPENDS ${PROJECT_SOURCE_DIR}/c/phasor.map)
target_include_directories(phasor_c INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(BUILD_SHARED_LIBS AND NOT PHASOR_CUDA)  # it holds the C++ library all the same: its promises are not those of libphasor.so
  target_sources(phasor_c PRIVATE $<TARGET_OBJECTS:phasor>)
  get_target_property(phasor_needs phasor LINK_LIBRARIES)
  target_link_libraries(phasor_c PRIVATE ${phasor_needs})
else()
  target_link_libraries(phasor_c PRIVATE $<BUILD_INTERFACE:phasor::phasor>)
endif()
if(NOT APPLE)
  target_link_options(phasor_c PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/c/phasor.map -Wl,--exclude-libs,ALL)
endif()
