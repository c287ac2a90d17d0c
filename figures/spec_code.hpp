// SPDX-License-Identifier: Apache-2.0
// A spec as somebody would type it: in C++, in Python, as options of the tool. What is as by default is not written.
#pragma once

#include <string>

#include "phasor/result.hpp"
#include "phasor/rotary.hpp"

namespace phasor::figures {

/// `phasor::RotarySpec{.head_dim = 128, ...}` inside the few lines that use it.
Result<std::string> cpp_of(const RotarySpec& spec);
/// `phasor.Rotary.from_spec(phasor.RotarySpec(head_dim=128, ...))` likewise.
Result<std::string> python_of(const RotarySpec& spec);
/// `phasor table --head-dim 128 ...`; an error where the tool has no option for a field.
Result<std::string> command_of(const RotarySpec& spec);

}  // namespace phasor::figures
