// SPDX-License-Identifier: Apache-2.0
// The scratch of a strip of attention: how the loops lay it out, so that the host can ask for it. Counted in T.
#pragma once

#include <algorithm>

#include "cpu/attention/job/attention.hpp"

namespace phasor::cpu {

/// Offsets of the forward loop's buffers, and where those of terms begin.
struct ForwardLayout {
  std::int64_t content[attend::kMaxContents] = {};  // (kQueryTile, padded_width) each
  std::int64_t q = 0;                               // as given, for terms: the same
  std::int64_t decayed = 0;                         // the same
  std::int64_t scores = 0;                          // (kQueryTile, kKeyTile)
  std::int64_t other = 0;                           // the same; xPos: the factors of a tile
  std::int64_t out = 0;                             // (kQueryTile, padded_value_width)
  std::int64_t maximum = 0;                         // (kQueryTile)
  std::int64_t sum = 0;
  std::int64_t factor = 0;
  std::int64_t split_keys[attend::kMaxContents] = {};  // decoding: a tile of keys, (kKeyTile, padded_width)
  std::int64_t split_values = 0;
  std::int64_t terms = 0;
};

inline ForwardLayout forward_layout(const attend::AttentionJob& job) {
  ForwardLayout layout;
  std::int64_t used = 0;
  const auto take = [&used](std::int64_t& offset, std::int64_t count) {
    offset = used;
    used += (count + 31) / 32 * 32;
  };
  const std::int64_t rows = attend::kQueryTile * job.shape.padded_width;
  for (int c = 0; c < job.content_count; ++c) take(layout.content[c], rows);
  take(layout.q, job.terms.empty() ? 0 : rows);
  take(layout.decayed, job.decay.present ? rows : 0);
  take(layout.scores, attend::kQueryTile * attend::kKeyTile);
  take(layout.other, std::max(attend::kQueryTile * attend::kKeyTile, job.decay.present ? job.shape.padded_width : 0));
  take(layout.out, attend::kQueryTile * job.shape.padded_value_width);
  take(layout.maximum, attend::kQueryTile);
  take(layout.sum, attend::kQueryTile);
  take(layout.factor, attend::kQueryTile);
  const std::int64_t split = job.key_splits > 0 ? attend::kKeyTile : 0;
  for (int c = 0; c < job.content_count; ++c) take(layout.split_keys[c], split * job.shape.padded_width);
  take(layout.split_values, split * job.shape.padded_value_width);
  layout.terms = used;
  return layout;
}

}  // namespace phasor::cpu
