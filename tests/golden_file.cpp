// SPDX-License-Identifier: Apache-2.0
#include "golden_file.hpp"

namespace phasor::test {

std::string golden_file(const std::string& name) { return GOLDEN_DIR "/" + name; }

}  // namespace phasor::test
