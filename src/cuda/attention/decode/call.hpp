// SPDX-License-Identifier: Apache-2.0
// Which calls over a cache the decoding kernel takes, said in its words, and what they work in.
#pragma once

#include <optional>

#include "cuda/attention/decode/row_bias.hpp"
#include "cuda/attention/decode/run.hpp"
#include "cuda/attention/layout.hpp"
#include "job/attention/cached_job.hpp"

namespace phasor::cuda::decode {

struct DecodeLayout {
  DecodeWork work;
  attention::Layout terms;                  // of a bias: values by distance
  std::optional<RowBiasWork> row_bias;      // of a table that meets queries
  std::optional<DenseBiasWork> dense_bias;  // of a bias given in full
  TensorView rotated;                       // q, rotated or shifted; data null: it is not, or it has no memory yet
  Positions positions;                      // (B, Tq): where it is rotated
  int64_t* made_positions = nullptr;        // the same, where lengths say them
  bool rotates = false;
  ConstTensorView content_shift = {};  // added to q
};

/// Lays a call out in the arena; nullopt: it has what the kernel does not know.
std::optional<DecodeLayout> lay_out(const job::CachedAttentionJob& job, attend::Arena& arena);

}  // namespace phasor::cuda::decode
