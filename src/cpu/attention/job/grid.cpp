// SPDX-License-Identifier: Apache-2.0
// Where the parts of a decomposed term's scratch lie.
#include "cpu/attention/job/attention.hpp"

#include <algorithm>

namespace phasor::attend {

DecomposedLayout layout_of(const DecomposedJob& term, bool backward) {
  DecomposedLayout at;
  at.y_stride = padded(term.y.keys) + kPadding;
  at.x_stride = padded(term.x.keys + kKeyTile);
  at.product_stride = std::max(term.y.padded_rows, term.x.padded_rows);
  const auto take = [&at](std::int64_t& offset, std::int64_t count) {
    offset = at.size;
    at.size += count;
  };
  take(at.products, kQueryTile * at.product_stride);
  take(at.y, kQueryTile * at.y_stride);
  take(at.x, kQueryTile * at.x_stride);
  take(at.indicator, kKeyTile * kKeyTile);
  if (!backward) return at;
  take(at.y_gradient, kQueryTile * at.y_stride);
  take(at.x_gradient, kQueryTile * at.x_stride);
  return at;
}

}  // namespace phasor::attend
