// SPDX-License-Identifier: Apache-2.0
// Weights between pairings: q and k projections, their biases and norms in safetensors files, rewritten so that the other pairing gives the
// same scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/result.hpp"
#include "phasor/rotary.hpp"

namespace phasor {

struct PermuteOptions {
  Pairing from = Pairing::half;
  Pairing to = Pairing::interleaved;
  std::int64_t heads = 0;         // of q
  std::int64_t kv_heads = 0;      // of k; 0: heads
  std::int64_t head_dim = 0;      // 0: rows / heads
  std::int64_t rotary_width = 0;  // 0: head_dim
  std::int64_t rotary_offset = 0;
  std::string prefix = {};  // only tensors whose names begin so ("model.language_model."); empty: all
};

struct PermuteReport {
  std::vector<std::string> permuted;  // tensor names
  std::int64_t copied = 0;            // tensors copied as they are
};

/// Reads `from_path` and writes `to_path`, a new file, atomically (a temporary beside it, then renamed): nothing is left when it fails.
/// Permutes q_proj, k_proj (and wq, wk, q_b_proj, kv_a_proj_with_mqa), the q and k rows of qkv_proj, and q_norm, k_norm: weights, biases,
/// scales with a row for each channel. Header and metadata stay byte for byte. Other fusions and packed integer weights are errors.
Result<PermuteReport> permute_safetensors(const std::string& from_path, const std::string& to_path, const PermuteOptions& options);

enum class PairingRelation : std::uint8_t { same, half_to_interleaved, interleaved_to_half, different };
/// How the q and k weights of two files of one model are related; `different` when neither is the other permuted.
Result<PairingRelation> detect_pairing(const std::string& left_path, const std::string& right_path, const PermuteOptions& shape);

}  // namespace phasor
