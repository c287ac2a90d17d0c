# SPDX-License-Identifier: Apache-2.0
# Phasor for vcpkg, as an overlay: vcpkg install phasor --overlay-ports=packaging/vcpkg/ports. Never built by vcpkg so far: where this was written
# there was none. tests/tools/packages_test.py runs it by CMake alone, with vcpkg's functions replaced by ones that look at what they are given.

# The sources are those around this port; a port in a registry would take a release's archive instead (vcpkg_from_github).
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        openmp PHASOR_OPENMP
        tool PHASOR_BUILD_CLI
)
# PATHS /usr/include of cmake/third_party.cmake comes last: what vcpkg installed is found first.
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${FEATURE_OPTIONS})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/phasor)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES phasor AUTO_CLEAN)
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/packaging/THIRD_PARTY_LICENSES.txt")
