// SPDX-License-Identifier: Apache-2.0
// How prepare_attention of MLA is cut: k is one wide head, the latent and what is rotated of it, beside heads of other operands. A warp has
// a piece of a token: the wide head, some vectors of the others, or both. Warps share nothing, so none waits for another.
#pragma once

#include "cuda/prepare/latent/plain.hpp"
#include "cuda/prepare/squads/make.hpp"

namespace phasor::cuda {

/// Vectors of the wide head, at most.
constexpr int kLatentVectors = 128;
/// Parts of a head that go to places of their own.
constexpr int kLatentSinks = 2;

/// n / by for n < 2^23 and by <= 512, by a product: inverse = (2^32 + e) / by with e < by, so what it is too much by is less than 1 / by.
PHASOR_HD inline int divided_by(int n, unsigned inverse) {
#ifdef __CUDA_ARCH__
  return inverse == 0 ? n : static_cast<int>(__umulhi(static_cast<unsigned>(n), inverse));
#else
  return inverse == 0 ? n : static_cast<int>(math::u64{static_cast<unsigned>(n)} * inverse >> 32);
#endif
}
/// 0 stands for 2^32, that of 1.
inline unsigned inverse_of(int by) {
  return static_cast<unsigned>(((math::u64{1} << 32) + static_cast<unsigned>(by) - 1) / static_cast<unsigned>(by));
}

struct LatentSink {
  SquadOperand as;  // how its channels lie
  int first = 0;    // vectors
  int count = 0;
  int groups = 0;  // that share a made scale
  int group_vectors = 1;
  unsigned group_inverse = 0;
};
struct LatentShape {
  int operand = 0;                // the wide head's
  int vectors = 0;                // of it
  int norm_width = 0;             // channels; 0: no norm
  int weights = 0;                // vectors of the norm's weights in the tensor's dtype
  bool machine_products = false;  // the norm rounds before its weights and behind them: products of 16 bits
  LatentSink sinks[kLatentSinks];
  int sink_count = 0;
  bool wide_apart = false;  // the first piece is the wide head alone
  int pieces = 1;
  int each = 0;                             // others' vectors of a piece, at most
  int ends[job::kPrepareOperands] = {};     // others' vectors up to the end of each operand
  int of_head[job::kPrepareOperands] = {};  // vectors of one of its heads
  unsigned head_inverse[job::kPrepareOperands] = {};
  int block_warps = 1;
  unsigned warp_bytes = 0;  // of shared memory
};
struct LatentWork : SquadWork {
  LatentShape latent;
};

/// What a warp keeps: vectors as they came, then what its lanes tell each other.
struct LatentMemory {
  Words* row;
  Words* weights;
  Words* others;
  CosSin<float>* values;
  AppliedScale* scales;  // of groups
  float* most;           // the largest magnitude of each vector
};
inline unsigned latent_bytes(const LatentShape& latent, int pairs) {
  const int vectors = latent.vectors + latent.weights + latent.each;
  int made = 0;
  for (int s = 0; s < latent.sink_count; ++s) made = latent.sinks[s].groups != 0 ? kLatentVectors : made;
  return static_cast<unsigned>(vectors * 16 + (pairs + 1) / 2 * 16 + made * 12);
}
PHASOR_HD inline LatentMemory latent_memory(const LatentShape& latent, int pairs, std::byte* first) {
  LatentMemory memory{};
  memory.row = reinterpret_cast<Words*>(first);
  memory.weights = memory.row + latent.vectors;
  memory.others = memory.weights + latent.weights;
  memory.values = reinterpret_cast<CosSin<float>*>(memory.others + latent.each);
  memory.scales = reinterpret_cast<AppliedScale*>(memory.values + (pairs + 1) / 2 * 2);
  memory.most = reinterpret_cast<float*>(memory.scales + kLatentVectors);
  return memory;
}

struct LatentPlace {
  SquadPlace of;  // batch row and token
  int piece;
};

}  // namespace phasor::cuda
