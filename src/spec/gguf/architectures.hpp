// SPDX-License-Identifier: Apache-2.0
// What a GGUF file leaves to its architecture: the pairing, which layers slide, which know no positions. As llama.cpp has it in its code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "phasor/rotary.hpp"

namespace phasor::spec {

/// llama.cpp calls them NORM, NEOX, MROPE and IMROPE; sections are paired by half. `..._or_sections`: as the file has sections or not.
enum class GgufLayout : std::uint8_t {
  none,
  interleaved,
  half,
  sections_chunked,
  sections_interleaved,
  interleaved_or_sections,
  half_or_sections
};

/// Which layers have a sliding window when the file has one.
enum class GgufSliding : std::uint8_t {
  ignored,      // the architecture knows none: a window in the file holds for every layer
  full_last,    // of every `period` layers the last is full
  full_first,   // of every `period` layers the first is full
  every_layer,  // DeepSeek-V4
};

/// What turns the sliding layers, where the file does not say it.
enum class GgufSlidingBase : std::uint8_t { as_full, ten_thousand };
enum class GgufSlidingScaling : std::uint8_t { as_full, unscaled };

/// Which layers are not rotated.
enum class GgufUnrotated : std::uint8_t {
  none,
  every_fourth,             // 3, 7, 11, ... (SmolLM3)
  every_fourth_if_sliding,  // the same unless the file's window is 0 (Llama 4)
  first_of_four,            // 0, 4, 8, ... where there is a window (SmallThinker)
  full_layers,              // only sliding layers turn (Cohere 2)
  full_if_sliding,          // the same, unless no layer slides (EXAONE 4)
  by_finetuned,             // Granite: rope.scaling.finetuned = false switches it off
};

/// Which have a learned table of positions, position_embd.weight, as many rows as context_length.
enum class GgufLearned : std::uint8_t {
  none,
  always,        // llama.cpp loads no file without it
  unless_alibi,  // MPT: optional, and what a model without ALiBi has
};

struct GgufArchitecture {
  std::string_view name;
  GgufLayout layout = GgufLayout::none;
  GgufSliding sliding = GgufSliding::ignored;
  std::int64_t period = 0;
  GgufSlidingBase sliding_base = GgufSlidingBase::as_full;
  GgufSlidingScaling sliding_scaling = GgufSlidingScaling::as_full;
  GgufUnrotated unrotated = GgufUnrotated::none;
  GgufLearned learned = GgufLearned::none;
};

/// Whether its attention is latent: unrotated channels in front of the rotary ones, a tenth of YaRN's log multiplier in the file.
bool is_latent(std::string_view architecture);
/// Whether llama.cpp reads YaRN's log multiplier.
bool reads_log_multiplier(std::string_view architecture);

/// All that are known, sorted by name.
std::span<const GgufArchitecture> gguf_architectures();

/// Null for one that is not known.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

}  // namespace phasor::spec
