// SPDX-License-Identifier: Apache-2.0
// Builders of positions: from what engines and models have at hand (offsets, masks, pages, grids, shards) to a position for every token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "phasor/execution.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

// Every builder checks all of its input before it writes: on an error nothing is written. A value that the type of `out` cannot hold
// is an error, and so is input that lies in the output. What has one value per token is written to every axis alike. Builders run on the
// CPU, and memory elsewhere is an error, but for those that take an Execution: with memory on a device these neither wait nor check what
// lists there hold, and a token that no sequence, page or length has is written as -1.

/// What a list of integers may hold.
template <class T>
concept ListedInteger = std::is_integral_v<T> && (sizeof(T) == 1 ? std::is_unsigned_v<T> : std::is_signed_v<T> && sizeof(T) >= 4);

/// A list of integers as the caller has it: signed of 4 or 8 bytes; or of 1 byte, unsigned or bool (masks). Empty: not given.
struct Integers {
  const void* data = nullptr;
  std::int64_t size = 0;
  std::int64_t bytes = 8;  // of an element
  Device device{};

  Integers() = default;
  template <ListedInteger T>
  Integers(const T* list, std::size_t n, Device device_ = {})
      : data(list), size(static_cast<std::int64_t>(n)), bytes(sizeof(T)), device(device_) {}
  template <class List>
    requires requires(const List& list) {
      requires ListedInteger<std::remove_cvref_t<decltype(*list.data())>>;
      static_cast<std::size_t>(list.size());
    }
  Integers(const List& list) : Integers(list.data(), list.size()) {}  // NOLINT(google-explicit-constructor)
};

/// offset + t.
Status fill_from_offset(const PositionsView& out, std::int64_t offset, const Execution& execution = {});
/// offsets[b] + t; B offsets.
Status fill_from_offsets(const PositionsView& out, const Integers& offsets, const Execution& execution = {});

/// Sequences one after the other in one batch row: s is the tokens cu_seqlens[s] to cu_seqlens[s + 1] and begins at position offsets[s].
struct Ragged {
  Integers cu_seqlens = {};  // 0 first, rising, the tokens last
  Integers offsets = {};     // one per sequence (chunked prefill); empty: 0
};
Status fill_from_cu_seqlens(const PositionsView& out, const Ragged& ragged, const Execution& execution = {});

/// The n-th token that is not masked (from 0) is at first + n, a masked one at `masked`. 0, 0: transformers' generate, Bloom, ALiBi;
/// 0, 1: generate before transformers 5; 0, -1: OPT, whose table has two rows before the first.
struct MaskRule {
  std::int64_t first = 0, masked = 0;
};
/// RoBERTa and its kin: rows of the learned table, from padding_idx + 1 on.
inline MaskRule roberta_rule(std::int64_t padding_idx) { return {.first = padding_idx + 1, .masked = padding_idx}; }
struct AttentionMask {
  Integers values = {};                            // (B, past + T), 1 or 0; or token ids, when `pad` is given
  std::optional<std::int64_t> pad = std::nullopt;  // the token id that is masked
  std::int64_t past = 0;                           // columns before the first token that is asked for
};
Status fill_from_mask(const PositionsView& out, const AttentionMask& mask, const MaskRule& rule = {});

/// A paged cache: page i of sequence s is block blocks[s * pages + i] (negative: none), and holds the sequence's tokens from
/// i * page_size on.
struct PageTable {
  Integers blocks = {};   // (sequences, pages)
  Integers lengths = {};  // tokens of each sequence
  std::int64_t page_size = 0;
};
/// out (B = blocks of the cache, T = page_size): the position of the token in every place, `empty` where there is none. Sequences may
/// share a block only as the same page. Allocates one word per block.
Status fill_from_pages(const PositionsView& out, const PageTable& table, std::int64_t empty = -1);
/// Slots block * page_size + place of the tokens at integer positions `at`, of the shape of out: row b is sequence b, or, given
/// cu_seqlens, one row holds them all. A negative position has slot -1. `lengths` may be empty.
Status fill_slots(const PositionsView& out, const PageTable& table, const Positions& at, const Integers& cu_seqlens = {},
                  const Execution& execution = {});

/// fill_temperature to (B, T, 1, 1) of f32, which prepare_attention takes as query_factors. With memory on a device a position that has no
/// factor gets 1, so that a query of no sequence stays what it is.
Status fill_temperature(const TensorView& out, const QueryTemperature& temperature, const Positions& positions,
                        const Execution& execution = {});

/// Speculative drafts: token t hangs on token parents[t] of the same row, which is before it, or (-1) on the tokens accepted so far.
struct DraftTree {
  Integers parents = {};  // (T), the same in every row, or (B, T)
  Integers offsets = {};  // (B) or one: the position of a token without parent; empty: 0
};
/// offset + depth. Allocates one word per token.
Status fill_from_tree(const PositionsView& out, const DraftTree& tree);

/// Patches of an image or a video; also a row of image_grid_thw.
struct ImageGrid {
  std::int64_t frames = 1, rows = 0, columns = 0;
};
enum class GridAxis : std::uint8_t { frame, row, column };
/// index: 0, 1, 2, ...; centre: (2 i + 1 - n) / n of n, in [-1, 1] (DINOv3), for f64.
enum class GridUnit : std::uint8_t { index, centre };
struct GridLayout {
  std::span<const GridAxis> axes = {};  // what each axis of out counts; empty: row, column (Qwen vision, Pixtral, DINOv3);
                                        // column, row: Llama 4, SAM2, Gemma 4; frame, row, column: V-JEPA 2
  std::int64_t merge = 1;               // tokens go through the grid by squares of merge x merge (Qwen vision, GLM-4V)
  GridUnit unit = GridUnit::index;
  std::int64_t first = 0;    // index of the first row, column and frame (Llama 4: 1)
  std::int64_t prefix = 0;   // tokens before each grid (CLS, registers)
  std::int64_t suffix = 0;   // and behind it (Llama 4's CLS, padding)
  std::int64_t outside = 0;  // position of those (Gemma 4's padding: -1)
};
/// Grids one after the other in one batch row (B = 1): frames, in them rows, in them columns.
Status fill_from_grids(const PositionsView& out, std::span<const ImageGrid> grids, const GridLayout& layout = {});
/// Only the patches of given indices, (B, T), as a masked V-JEPA 2 has them; no merge, prefix or suffix.
Status fill_from_patches(const PositionsView& out, const Integers& patches, const ImageGrid& grid, const GridLayout& layout = {});

/// Whose get_rope_index.
enum class MropeModel : std::uint8_t { qwen2_vl, qwen2_5_vl, qwen3_vl, glm4v, ernie4_5_vl, qwen2_5_omni, qwen3_omni };
/// Special token ids, as the model's config names them. GLM-4V: image tokens from video_start to video_end are a video's.
struct MropeTokens {
  std::int64_t image = -1, video = -1, audio = -1, vision_start = -1, audio_start = -1, video_start = -1, video_end = -1;
};
struct MropeInput {
  MropeModel model = MropeModel::qwen2_vl;
  Integers input_ids = {};                 // (B, T)
  Integers token_types = {};               // (B, T), 0 text, 1 image, 2 video; instead of input_ids, not for Omni
  Integers attention_mask = {};            // (B, T); empty: nothing is masked
  std::span<const ImageGrid> images = {};  // in patches, before merging
  std::span<const ImageGrid> videos = {};
  std::span<const float> seconds_per_grid = {};  // one a video (Qwen2.5-VL, Omni); empty: 1
  Integers audio_lengths = {};                   // audio_seqlens (Omni)
  bool use_audio_in_video = false;               // Omni
  MropeTokens tokens = {};
  std::int64_t merge = 2;               // spatial_merge_size
  std::int64_t temporal_merge = 2;      // of Ernie's videos
  double tokens_per_second = 2;         // Qwen2.5-VL
  double position_id_per_seconds = 25;  // Omni
  double seconds_per_chunk = 2;         // Qwen2.5-Omni
  std::int64_t audio_window = 50;       // Qwen3-Omni's n_window
};
/// out (3, B, T): frame, row and column ids, bit for bit those of transformers. Qwen3-Omni's may be fractions: then out must be f64.
/// deltas: B of them, or empty; what to add to a token's index to go on after the row. Allocates up to two words per token.
Status fill_mrope(const PositionsView& out, std::span<double> deltas, const MropeInput& input);

/// How a sequence of n tokens is dealt out to `ranks`, all of which get as many.
enum class ShardOrder : std::uint8_t {
  contiguous,  // rank r has the r-th part
  zigzag,      // of 2 ranks parts, rank r has the parts r and 2 ranks - 1 - r (Megatron, Transformer Engine)
  striped,     // rank r has the tokens r, r + ranks, r + 2 ranks, ...
  permuted,    // contiguous parts of the tokens in the order of `permutation`
};
struct Shard {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  ShardOrder order = ShardOrder::zigzag;
  std::int64_t tokens = 0;    // of one whole sequence from position 0 on; or
  Ragged whole = {};          // sequences, each dealt out by itself (not `permuted`)
  Integers permutation = {};  // of the tokens, for `permuted`
};
/// Positions of the tokens that one rank holds; T = tokens / ranks, B = 1.
Status fill_shard(const PositionsView& out, const Shard& shard);
/// Which tokens of the whole those are.
Status fill_shard_tokens(const PositionsView& out, const Shard& shard);

/// T of the positions 0 to length - 1, drawn without replacement and sorted, for each row anew: by splitmix64 from `seed`, bounded by
/// Lemire's multiplication with rejection, the same on every machine. Allocates up to one word per token.
struct RandomPositions {
  std::int64_t length = 0;
  std::uint64_t seed = 0;
};
Status fill_random(const PositionsView& out, const RandomPositions& random);

}  // namespace phasor
