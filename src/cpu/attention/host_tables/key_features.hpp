// SPDX-License-Identifier: Apache-2.0
// What meets a table on the key side, as rows of T, and its gradients.
#pragma once

#include <cstdint>

#include "cpu/attention/host/terms.hpp"
#include "job/memory/arena.hpp"
#include "phasor/attention.hpp"

namespace phasor::attend {

/// (B or 1, Hk or 1, Tk and kKeyTile more, padded width) T, strides 0 where shared. Keys that no query sees are zeros: what lies in their
/// memory, NaN perhaps, must not meet a gradient of 0.
struct KeyFeatures {
  void* data;
  std::int64_t batch_stride;
  std::int64_t head_stride;
};
KeyFeatures pack_key_features(const ConstTensorView& features, const TermContext& context, Arena& arena);

/// (B, Hk, Tk, padded_width) T of zeros.
void* take_feature_sums(std::int64_t padded_width, const AttentionJob& job, Arena& arena);
/// Added to the caller's gradient of features, over batch rows and key heads that share.
void add_feature_sums(const void* sums, std::int64_t padded_width, const TermContext& context);

}  // namespace phasor::attend
