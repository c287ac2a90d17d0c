// SPDX-License-Identifier: Apache-2.0
// The cosines and sines of a rotary at one position, as reports compare them.
#pragma once

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

}  // namespace phasor::analysis
