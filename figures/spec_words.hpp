// SPDX-License-Identifier: Apache-2.0
// Specs in words: for people, for legends, as JSON under the names of the tool's options.
#pragma once

#include <string>
#include <vector>

#include "phasor/result.hpp"
#include "phasor/rotary.hpp"

namespace phasor::figures {

/// Names as people type them, in the order of the enum.
const std::vector<std::string>& numerics_names();
const std::vector<std::string>& order_names();  // without `given`
const std::vector<std::string>& ladder_names();
const char* name_of(Numerics numerics);
const char* name_of(AxisOrder order);
const char* name_of(AxisLadder ladder);

/// "unscaled", "linear", ...: as --scaling takes it.
std::string scaling_name(const Scaling& scaling);

/// The spec in one line, for people: "head_dim 128, base 500000, llama3 (factor 8, ...), half".
std::string describe(const RotarySpec& spec);

/// The same in a few words, for a legend: "base 500000, llama3, factor 8".
std::string label_of(const RotarySpec& spec);

/// The same as a JSON object.
std::string to_json(const RotarySpec& spec);

struct NamedSpec {
  std::string name;  // for a legend
  RotarySpec spec;
};

Result<std::vector<Rotary>> rotaries_of(const std::vector<NamedSpec>& specs);

}  // namespace phasor::figures
