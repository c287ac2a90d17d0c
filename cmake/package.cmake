# SPDX-License-Identifier: Apache-2.0
# Installation, and the package that find_package(phasor) finds.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/phasor)

install(TARGETS phasor EXPORT phasor_targets)
install(DIRECTORY include/phasor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT phasor_targets NAMESPACE phasor:: DESTINATION ${package_dir})
configure_package_config_file(cmake/phasor-config.cmake.in phasor-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(phasor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/phasor-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/phasor-config-version.cmake DESTINATION ${package_dir})
