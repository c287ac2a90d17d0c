# SPDX-License-Identifier: Apache-2.0
# Headers of others that the sources use: Highway, Boost, fmt, nlohmann-json and, for the tool, CLI11. Never their libraries, so that nothing leaks
# into what users link.
add_library(phasor_third_party INTERFACE)

set(probes hwy/highway.h boost/multiprecision/cpp_int.hpp fmt/format.h nlohmann/json.hpp)
if(PHASOR_BUILD_CLI)
  list(APPEND probes CLI/CLI.hpp)
endif()
foreach(probe ${probes})
  get_filename_component(name ${probe} DIRECTORY)
  string(REGEX REPLACE "/.*" "" name ${name})
  find_path(${name}_headers NAMES ${probe} PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(${name}_headers)
  if(CMAKE_CROSSCOMPILING)
    # The host's include directory as a whole would bring its C library along: take these folders only.
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/third_party)
    file(CREATE_LINK ${${name}_headers}/${name} ${PROJECT_BINARY_DIR}/third_party/${name} SYMBOLIC)
    target_include_directories(phasor_third_party SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/third_party)
  else()
    target_include_directories(phasor_third_party SYSTEM INTERFACE ${${name}_headers})
  endif()
endforeach()

# fmt's code in the file that includes it. Without locales where size counts: nothing here asks for separators, and a page's module would have 31 kB of them.
set(fmt_definitions FMT_HEADER_ONLY)
if(EMSCRIPTEN)
  list(APPEND fmt_definitions FMT_STATIC_THOUSANDS_SEPARATOR=44)
endif()
# fmt for programs (the tool, the benchmarks): its code in every file would take 8 s per file to compile.
add_library(phasor_fmt STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
target_compile_features(phasor_fmt PUBLIC cxx_std_20)
target_compile_definitions(phasor_fmt PRIVATE ${fmt_definitions})
target_link_libraries(phasor_fmt PUBLIC phasor_third_party)
