// SPDX-License-Identifier: Apache-2.0
// Where the recorded files are. One source knows the folder of this checkout: were it a macro of every test, a compiler cache would miss
// them all in the next checkout.
#pragma once

#include <string>

namespace phasor::test {

/// The path of a file of tests/golden.
std::string golden_file(const std::string& name);

}  // namespace phasor::test
