// SPDX-License-Identifier: Apache-2.0
// One encoding or several side by side, as typed: the options of the first, and "name=value ..." for each further one.
#pragma once

#include <string>
#include <vector>

#include "spec_options.hpp"

namespace phasor::cli {

struct SpecList {
  SpecOptions first;
  std::vector<std::string> others;
};

void add_spec_list(const Command& command, SpecList& list);

/// Throws as spec_of does.
std::vector<NamedSpec> specs_of(const SpecList& list);

}  // namespace phasor::cli
