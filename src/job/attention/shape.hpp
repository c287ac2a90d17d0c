// SPDX-License-Identifier: Apache-2.0
// The extents of an attention call.
#pragma once

#include <cstdint>

#include "phasor/attention.hpp"

namespace phasor::job {

/// Rows of channels are padded to a multiple of this, so that kernels need no tails.
constexpr std::int64_t kPadding = 16;
constexpr std::int64_t padded(std::int64_t n) { return (n + kPadding - 1) / kPadding * kPadding; }

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  // Tq
  std::int64_t keys = 0;     // Tk
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t width = 0;        // D
  std::int64_t value_width = 0;  // Dv
  std::int64_t padded_width = 0;
  std::int64_t padded_value_width = 0;

  std::int64_t group() const { return heads / key_heads; }
};

/// Of inputs that fit each other. Without any heads there is one key head: nothing will run, and no quotient of heads be by 0.
inline AttentionShape shape_of(const AttentionInputs& in) {
  return {.batch = in.q.shape[0],
          .queries = in.q.shape[1],
          .keys = in.k.shape[1],
          .heads = in.q.shape[2],
          .key_heads = in.k.shape[2] == 0 ? 1 : in.k.shape[2],
          .width = in.q.shape[3],
          .value_width = in.v.shape[3],
          .padded_width = padded(in.q.shape[3]),
          .padded_value_width = padded(in.v.shape[3])};
}

}  // namespace phasor::job
