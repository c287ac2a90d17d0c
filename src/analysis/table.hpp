// SPDX-License-Identifier: Apache-2.0
// The cosines and sines of a rotary at one position, and a spec in several numerics profiles, as reports compare them.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::analysis {

template <class T>
struct Table {
  std::vector<T> cos;
  std::vector<T> sin;
};

template <class T>
Result<Table<T>> table_at(const Rotary& rotary, std::int64_t position) {
  const std::int64_t pairs = rotary.rotary_width() / 2;
  Table<T> table{std::vector<T>(static_cast<std::size_t>(pairs)), std::vector<T>(static_cast<std::size_t>(pairs))};
  const Extents shape{1, 1, 1, pairs};
  const Status status = rotary.cos_sin(positions_from(position), view(table.cos.data(), shape), view(table.sin.data(), shape));
  if (!status.ok()) return status;
  return table;
}

/// A spec in each of these profiles, of which exact is the first; those whose peer does not have the scaling are left out.
inline Result<std::vector<Rotary>> in_profiles(RotarySpec spec, std::span<const Numerics> wanted) {
  std::vector<Rotary> profiles;
  for (const Numerics numerics : wanted) {
    spec.numerics = numerics;
    Result<Rotary> rotary = Rotary::make(spec);
    if (rotary.ok()) {
      profiles.push_back(*std::move(rotary));
    } else if (numerics == Numerics::exact) {
      return rotary.status();
    }
  }
  return profiles;
}

}  // namespace phasor::analysis
