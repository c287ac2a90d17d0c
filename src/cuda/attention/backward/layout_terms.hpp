// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/attention/backward/layout.hpp"

namespace phasor::cuda::attention {

/// Places of sums, one after the other.
class SumPlaces {
 public:
  /// Of so many numbers; -1 where they are not wanted.
  int64_t take(int64_t count, bool wanted = true) {
    if (!wanted) return -1;
    const int64_t at = used_;
    used_ += (count + 15) / 16 * 16;
    return at;
  }
  int64_t used() const { return used_; }

 private:
  int64_t used_ = 0;
};

/// A gradient that is computed: without elements there is nothing to compute.
inline bool is_asked(const TensorView& v) { return v.data != nullptr && element_count(v.shape) > 0; }

/// What terms ask of the cut of a call into blocks.
struct TermNeeds {
  bool one_group = false;      // batch rows share a bias given in full
  bool one_key_group = false;  // heads share one
  bool by_batch = false;       // some table has a gradient for each batch row
  bool raw_q = false;          // some term has a gradient by q as given
  bool raw_k = false;
  bool any = false;  // has a gradient of its own
};
/// Terms made ready for a backward.
TermNeeds begin_terms(const job::AttentionBackwardJob& job, AttentionWork& work);
/// What terms add up in a block, in numbers of so many bytes.
void lay_out_slot(AttentionWork& work, int64_t bytes, SumPlaces& slot);
/// What terms add up in a call.
void lay_out_term_sums(AttentionWork& work, SumPlaces& sums);
/// What is done with those, and the sums that this takes besides.
void lay_out_term_ends(const job::AttentionBackwardJob& job, SumPlaces& sums, BackwardLayout& out);

/// The same of a gradient that kernels write whole, as float32: where; data null while measuring, or where none is wanted.
TensorView lay_out_whole_end(const TensorView& gradient, SumPlaces& sums, BackwardLayout& out);

ItemWork item_of(ItemKind kind, int64_t count, const SumWork& sum);

}  // namespace phasor::cuda::attention
