// SPDX-License-Identifier: Apache-2.0
// The tensors of attention in JAX's calls: which operand is which, by names such as "0.table" (of the first term) and "sinks".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "jax/call.hpp"
#include "phasor/scheme.hpp"

namespace phasor::python::jax {

struct Slot {
  std::optional<std::size_t> term;  // none: of the call
  std::string_view name;
  Operand operand = {};
};

/// The names of a text, parted by spaces.
std::vector<Slot> slots_of(std::string_view text);

/// Operands that come with a call beside q, k and v, and the library's spec of each call made of them.
class AttentionTensorsOf {
 public:
  /// The operands from `first` on are those that the attribute `slots` names.
  AttentionTensorsOf(const Call& call, const Attention& plan, std::int64_t first);

  /// Folds where these and `whole` allow it.
  void fold(Calls& calls, std::vector<Operand> whole) const;
  AttentionSpec spec(const Calls& calls, std::int64_t call) const;
  /// That of a name, where it is there.
  const Operand* find(std::string_view name) const;

 private:
  void put(const Slot& slot, const Calls& calls, std::int64_t call, AttentionTensors& tensors) const;
  void put(const Slot& slot, const Calls& calls, std::int64_t call, TermTensors& tensors) const;

  const Attention& plan_;
  std::vector<Slot> slots_;
};

}  // namespace phasor::python::jax
