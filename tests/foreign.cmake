# SPDX-License-Identifier: Apache-2.0
# The tests whose libraries are only here for this machine (MPFR, RapidCheck), and the sweeps: compiled for the other one, not linked. What does
# not compile there cannot land; that its numbers are right there is seen by the tests that run, and by these same tests on a machine of that kind.
if(EMSCRIPTEN)
  return()
endif()
include(surface/headers.cmake)
include(surface/examples.cmake)
foreach(probe mpfr.h gmp.h rapidcheck.h rapidcheck)
  find_path(${probe}_folder NAMES ${probe} PATHS /usr/include /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(${probe}_folder)
  file(CREATE_LINK ${${probe}_folder}/${probe} ${PROJECT_BINARY_DIR}/third_party/${probe} SYMBOLIC)
endforeach()
phasor_objects(unlinked phasor_unlinked_tests ${oracle} ${laws} ${exhaustive})
add_library(phasor_unlinked_tests OBJECT ${unlinked})
phasor_compile_test(phasor_unlinked_tests)
# At -Og as the others: at -O0 g++ does not see that a function of Highway cannot be inlined (tests/attention/terms/bias_tile_test.cpp).
target_link_libraries(phasor_unlinked_tests PRIVATE ${gtest} Threads::Threads)
target_precompile_headers(phasor_unlinked_tests REUSE_FROM phasor_test_headers)
