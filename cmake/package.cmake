# SPDX-License-Identifier: Apache-2.0
# Installation, and what other projects find: find_package(phasor) and pkg-config.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/phasor)

# With BUILD_SHARED_LIBS: the binary interface of C++ is that of one minor version until 1.0. No symbol is defined while it is compiled, so that its
# objects are those of the static library, which ccache has.
set_target_properties(phasor PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} DEFINE_SYMBOL "")
install(TARGETS phasor EXPORT phasor_targets)
if(TARGET phasor_c)
  install(TARGETS phasor_c EXPORT phasor_targets)
endif()
install(FILES LICENSE packaging/THIRD_PARTY_LICENSES.txt DESTINATION ${CMAKE_INSTALL_DOCDIR})  # headers of others are compiled into it
install(DIRECTORY include/phasor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT phasor_targets NAMESPACE phasor:: DESTINATION ${package_dir})
configure_package_config_file(cmake/phasor-config.cmake.in phasor-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(phasor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/phasor-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/phasor-config-version.cmake DESTINATION ${package_dir})

# pkg-config: phasor is the C++ library (static unless BUILD_SHARED_LIBS), phasor_c the shared one of C.
set(pkgconfig_libs "-lphasor")
if(OpenMP_CXX_FOUND AND PHASOR_OPENMP AND NOT BUILD_SHARED_LIBS)  # a shared library brings its own
  list(JOIN OpenMP_CXX_FLAGS " " openmp_flags)
  string(APPEND pkgconfig_libs " ${openmp_flags}")
endif()
if(PHASOR_CUDA AND NOT BUILD_SHARED_LIBS)
  string(APPEND pkgconfig_libs " -lcudart_static -ldl -lrt -lpthread")
endif()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pkgconfig_includedir)
set(pkgconfig_includedir "\${pcfiledir}/${pkgconfig_includedir}")
foreach(name phasor phasor_c)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
