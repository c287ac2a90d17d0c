// SPDX-License-Identifier: Apache-2.0
// The table of models: what a model_type means that its config.json does not say. A new model is a line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "phasor/rotary.hpp"

namespace phasor::spec {

/// How a model knows positions; one reader each.
enum class Encoding : std::uint8_t {
  rotary,
  // Patches of images and video.
  axial,          // rotary by height and width, each over half the channels (Qwen vision)
  pixtral,        // rotary by height and width, one ladder dealt out
  llama4_vision,  // rotary by x and y, from 1 on
  gemma4_vision,  // rotary by x and y, each inside its half of the head
  sam2_memory,    // rotary by x and y in memory attention
  vjepa2,         // rotary by time, height and width, per-channel frequencies
  dinov3,         // rotary by patch centres in turns
  // Biases on scores.
  bloom,
  mpt,
  falcon,  // rotary or ALiBi
  t5,
  xlnet,
  deberta,
  swin,
  // Added to tokens.
  learned,
  roberta,  // learned, the first row is padding_idx + 1
  bart,     // learned, the first row is 2 (OPT)
  whisper,  // sinusoidal encoder, learned decoder
  sinusoidal,
  none,
};

/// Class defaults: what a file that leaves a key out means.
struct Sizes {
  std::int64_t hidden = 4096;
  std::int64_t heads = 32;
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t layers = 32;
  std::int64_t length = 2048;  // positions
};

/// Which layers a file without layer_types means.
struct LayerPattern {
  enum class Kind : std::uint8_t {
    uniform,
    full_last,    // of every `period` layers the last is full, the others slide
    full_first,   // of every `period` layers the first is full
    linear,       // of every `period` layers the last is full, the others have linear attention
    alternating,  // full, linear, full, ...
    windowed,     // layers from max_window_layers on slide, if use_sliding_window
    sliding,      // every layer slides
    chunked,      // Llama 4: layers with rotary are chunked, those without are full
    mimo,         // the first and the last of every `period` are full
    deepseek_v4,
  };
  Kind kind = Kind::uniform;
  std::int64_t period = 1;
};

/// Where the rotated channels lie in a head.
enum class Place : std::uint8_t { leading, trailing, after_nope };  // after_nope: behind qk_nope_head_dim channels (MLA)

/// Which layers leave positions out although they attend.
enum class Unrotated : std::uint8_t { none, by_interval, full_layers, full_layers_if_window };

/// Factor on q k.
enum class AttentionScale : std::uint8_t { usual, query_pre_attn_scalar, one, attention_multiplier };

/// How sections of several axes are laid out when the file does not say.
struct ModelAxes {
  std::array<std::int64_t, 4> sections{};  // as the file would have them; all 0: one axis
  AxisOrder order = AxisOrder::chunked;
};

/// Rules of a single model or few.
enum Quirk : std::uint32_t {
  quirk_interleave_key = 1U << 0U,     // rope_interleave (true unless said): reads interleaved, writes half
  quirk_softmax_mscale = 1U << 1U,     // YaRN's mscale_all_dim multiplies the softmax scale too
  quirk_scaling_is_full = 1U << 2U,    // a flat rope_scaling is of full_attention layers only
  quirk_window_all = 1U << 3U,         // sliding_window is of every layer
  quirk_su_is_longrope = 1U << 4U,     // "su" and "yarn" mean longrope
  quirk_temperature = 1U << 5U,        // attn_temperature_tuning on layers without rotary
  quirk_turned_back = 1U << 6U,        // values are rotated too
  quirk_compress_labels = 1U << 7U,    // rope_parameters has main and compress
  quirk_global_head_dim = 1U << 8U,    // full layers have global_head_dim channels
  quirk_proportional_full = 1U << 9U,  // full layers are proportional unless said
  quirk_half_window = 1U << 10U,       // local_attention is the window on both sides
  quirk_sections_hwt = 1U << 11U,      // mrope_section is height, width, time
  quirk_log_n = 1U << 12U,             // use_logn_attn, use_dynamic_ntk (Qwen 1)
};

struct Model {
  std::string_view type;
  Encoding encoding = Encoding::rotary;
  Sizes sizes = {};
  double base = 10000;
  double local_base = 0;  // of sliding layers; 0: base
  double share = 1;       // of the head that is rotated
  double local_share = 0;
  std::int64_t rotary_width = 0;  // 0: by share
  std::int64_t window = 0;        // 0: none
  LayerPattern pattern = {};
  Pairing pairing = Pairing::half;
  std::optional<Pairing> output_pairing = std::nullopt;
  Sense sense = Sense::counterclockwise;
  Place place = Place::leading;
  std::array<std::int64_t, 2> mla{};  // qk_nope_head_dim, qk_rope_head_dim
  ModelAxes axes = {};
  Numerics numerics = Numerics::hf;
  Unrotated unrotated = Unrotated::none;
  std::int64_t interval = 4;  // for by_interval
  AttentionScale scale = AttentionScale::usual;
  double scale_default = 0;  // query_pre_attn_scalar or attention_multiplier of the class
  std::uint32_t quirks = 0;

  bool has(Quirk quirk) const { return (quirks & quirk) != 0; }
};

/// The rows of one file of the table.
std::span<const Model> text_models();
std::span<const Model> other_models();

/// The row of a model_type, null when there is none. "gemma3_text" and "mllama_text_model" are found under their family.
const Model* find_model(std::string_view type);
/// The row of a tower: vision_config with `type` (may be empty) in a model of type `parent`; `part` is "vision" or "audio".
const Model* find_tower(std::string_view type, std::string_view parent, std::string_view part);

}  // namespace phasor::spec
