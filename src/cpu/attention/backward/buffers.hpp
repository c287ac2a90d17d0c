// SPDX-License-Identifier: Apache-2.0
// What a strip of the backward works in, laid out once for the host, which asks for its size, and for the kernels, which use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/attention/job/attention.hpp"

namespace phasor::cpu {

/// Rows are those of one query tile.
template <class T>
struct BackwardBuffers {
  T* q = nullptr;                                  // (kQueryTile, padded_width), as given: for terms
  T* content_q[attend::kMaxContents] = {};         // the same of each content, with the shift, times the scale
  T* content_gradient[attend::kMaxContents] = {};  // sums of ds k
  T* spare = nullptr;                              // (kQueryTile, the larger width): out, then xPos's q with the factors of a tile
  T* key_tile = nullptr;      // (kKeyTile, padded_width): xPos's k with the factors of a tile; gradients of a short tile
  T* out_gradient = nullptr;  // (kQueryTile, padded_value_width)
  T* scores = nullptr;        // (kQueryTile, kKeyTile): scores, then probabilities
  T* dp = nullptr;            // the gradient by probabilities, then by scores
  T* slope = nullptr;         // of the soft cap
  T* lse = nullptr;           // (kQueryTile)
  T* row_sum = nullptr;       // (kQueryTile): <do, o> - dlse
  std::int64_t used = 0;      // T
};

/// `base` null measures: nothing here may depend on what is only known later, such as pointers of the job.
template <class T>
BackwardBuffers<T> backward_buffers(const attend::AttentionJob& job, T* base) {
  BackwardBuffers<T> b;
  const auto take = [&](std::int64_t count) -> T* {
    T* const result = base != nullptr && count > 0 ? base + b.used : nullptr;
    b.used += (count + 15) / 16 * 16;
    return result;
  };
  const std::int64_t row_size = attend::kQueryTile * job.shape.padded_width;
  const std::int64_t value_size = attend::kQueryTile * job.shape.padded_value_width;
  // xPos puts the factors of a tile where scores or their gradients are not needed.
  const std::int64_t score_size = std::max(attend::kQueryTile * attend::kKeyTile, job.decay.present ? job.shape.padded_width : 0);
  b.q = take(job.terms.empty() ? 0 : row_size);
  for (int c = 0; c < job.content_count; ++c) {
    b.content_q[c] = take(row_size);
    b.content_gradient[c] = take(row_size);
  }
  b.spare = take(std::max(row_size, value_size));
  b.key_tile = take(job.decay.present || !job.terms.empty() ? attend::kKeyTile * job.shape.padded_width : 0);
  b.out_gradient = take(value_size);
  b.scores = take(score_size);
  b.dp = take(score_size);
  b.slope = take(job.softcap > 0 ? score_size : 0);
  b.lse = take(attend::kQueryTile);
  b.row_sum = take(attend::kQueryTile);
  return b;
}

}  // namespace phasor::cpu
