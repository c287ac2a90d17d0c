// SPDX-License-Identifier: Apache-2.0
// Attention whose keys and values are read where prepare_attention left them: a cache of any layout and storage, by pages or row by row.
#pragma once

#include <cstdint>

#include "phasor/attention.hpp"
#include "phasor/cache.hpp"
#include "phasor/position_builders.hpp"

namespace phasor {

/// q (B, Tq, H, D), f32, f16 or bf16, a sequence for each batch row; or (1, all tokens, H, D) and visibility.query_starts, a sequence for
/// each of them (key_starts stay empty: lengths say it). Key j of sequence s is token j % page_size of block blocks[s * pages +
/// j / page_size], for j below lengths[s]; without blocks it is token j of block s. k holds all D channels of its heads, v all Dv of as
/// many, each of one part; scales are undone: stored times scale, or over it where CacheScales::Use says that it was multiplied.
struct CachedInputs {
  ConstTensorView q;
  CacheView k;
  CacheView v;
  PageTable pages;  // lengths is needed; page_size is that of the caches, without blocks it is not read
};

/// Bytes that `cached_attention` works in. On a CPU by the lengths as they are now, on a device by pages and their size alone.
Result<std::int64_t> cached_attention_workspace(const CachedInputs& inputs, const AttentionSpec& spec);

/// attention over the keys that the cache has for each sequence: query i of Tq stands at length - Tq + i, key j at j, unless the spec gives
/// positions. Tensors of the spec that go by key (masks, features, a dense bias, key positions) have room for pages x page_size keys, or
/// for the tokens of a block without pages; what is behind a length is not read. With query_starts they are (1, ...), the same for every
/// sequence. `prefix` is one per sequence. Arithmetic is float32. Keys in a cache that holds them rotated are KeyState::rotated; others are
/// rotated to q's dtype, which the cache must have where a numerics profile says how.
///
/// On a CPU lengths and pages are checked before anything is written. On a device they are read there alone, and are the caller's word: no
/// number of the call depends on them but the result, so that a captured graph is right for other lengths, up to the room there is. A
/// length below 0 counts as 0 there, one beyond the room as the room.
Status cached_attention(const CachedInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs, const Workspace& workspace);

}  // namespace phasor
