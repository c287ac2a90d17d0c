// SPDX-License-Identifier: Apache-2.0
// The checks of prepare_attention, by what they look at.
#pragma once

#include "job/check.hpp"
#include "job/prepare/job.hpp"
#include "job/specs/check.hpp"

namespace phasor::job {

inline constexpr const char* kPrepare = "prepare_attention";

/// q, k or v of a call, with what belongs to it.
struct PreparedTensor {
  const char* name;
  const ConstTensorView& in;
  const CacheParts& out;
  const HeadNorm& norm;
  bool placed;  // goes to the places of the call
};

inline bool is_there(const ConstTensorView& v) { return v.data != nullptr || v.shape != Extents{}; }
/// Rows are given as tables, or one of the two is.
inline bool has_tables(const PrepareRotation& rotation) { return is_there(rotation.cos) || is_there(rotation.sin); }
inline bool turns(const PrepareRotation& rotation) { return !rotation.rotaries.empty() || has_tables(rotation); }

/// So many tokens that they can be counted.
Status check_tokens(const char* where, const char* name, const Extents& shape);
/// A view of a cache by itself: memory, extents, scales.
Status check_cache_view(const char* where, const char* name, const CacheView& cache);
/// A view of a cache against the heads that it is to hold.
Status check_cache(const PreparedTensor& tensor, const CacheView& cache);
/// Which channels each part holds, blocks and tokens.
Status check_parts(const PreparedTensor& tensor, const TokenPlaces& places);
Status check_norm(const PreparedTensor& tensor, bool after_rotation);
/// The lists of places; on a CPU what they hold, too.
Status check_places(const PrepareCall& call, const PrepareJob& job);
/// Outputs apart from inputs, and from each other as far as views can tell.
Status check_apart(const PrepareCall& call);

}  // namespace phasor::job
