// SPDX-License-Identifier: Apache-2.0
// ModelPositions: what a model's files say about its positions, layer by layer, whatever dialect they speak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"

namespace phasor {

/// What a model adds to its scores.
struct ModelBias {
  enum class Kind : std::uint8_t { alibi, t5_buckets, deberta, xlnet, transformer_xl, swin };
  Kind kind = Kind::alibi;
  std::int64_t heads = 0;
  std::int64_t buckets = 0;       // t5_buckets; deberta: 0 for no log buckets
  std::int64_t max_distance = 0;  // t5_buckets, deberta
  double max_alibi = 8;           // alibi: slopes from 2^(-max_alibi / heads) on
  bool bidirectional = false;
};

/// What a model adds to its tokens.
struct ModelAdditive {
  enum class Kind : std::uint8_t { learned, sinusoidal };
  Kind kind = Kind::learned;
  std::int64_t length = 0;          // rows of the table; 0: none (sinusoidal), or the file does not say
  std::int64_t width = 0;           // channels; 0: the file does not say
  std::int64_t first_position = 0;  // row of the first token: RoBERTa padding_idx + 1, OPT 2
};

/// Dual chunk attention (Qwen2.5-1M): positions are mapped so that no distance exceeds chunk_size.
struct ModelDualChunk {
  std::int64_t chunk_size = 0;
  std::int64_t local_size = 0;
};

struct LayerPositions {
  std::string type = {};                            // "full_attention", ..., as the file names it; empty when it names none
  std::optional<RotarySpec> rotary = std::nullopt;  // none of these three: the layer knows no positions
  std::optional<ModelBias> bias = std::nullopt;
  std::optional<ModelAdditive> additive = std::nullopt;  // added once, before the first layer; every layer says so
  std::optional<double> attention_scale = std::nullopt;  // factor on q k; not given: 1/sqrt(head_dim). Rotary::softmax_scale comes on top
  std::optional<QueryTemperature> query_temperature = std::nullopt;
  std::int64_t window = 0;  // sliding window, both sides together where attention looks both ways; 0: none
  std::int64_t chunk = 0;   // attention stays inside chunks of so many positions (Llama 4); 0: no chunks
  std::optional<ModelDualChunk> dual_chunk = std::nullopt;
  Numerics numerics = Numerics::hf;  // the profile that repeats the model's own rounding (rotary->numerics stays exact)
  bool output_turned_back = false;   // values are rotated too and the output by minus the query's position (DeepSeek-V4)
  std::int64_t skipped_tokens = 0;   // prefix tokens that are not rotated (CLS, registers)
  std::int64_t first_position = 0;   // of a rotary: where rows and columns of patches begin (Llama 4 vision: 1)
};

/// A part of a model beside its text layers.
struct ModelTower {
  std::string name = {};        // "vision", "audio", "encoder"
  std::string model_type = {};  // as the file names it; empty when it does not
  std::vector<LayerPositions> layers = {};
};

struct ModelPositions {
  std::string dialect = {};     // "huggingface", "gguf"
  std::string model_type = {};  // "llama", as the file names it
  std::string text_type = {};   // of the text part, where the file names one of its own ("gemma3_text" in "gemma3")
  std::vector<LayerPositions> layers = {};
  std::vector<ModelTower> towers = {};
  std::int64_t trained_length = 0;  // positions before any extension; 0: the file does not say
  std::int64_t length = 0;          // positions the file allows
  std::vector<std::string> warnings = {};
};

struct ReadOptions {
  std::int64_t length = 0;  // positions in use, for dynamic NTK and LongRoPE's choice; 0: as many as were trained
};

/// The text of a Hugging Face config.json (v4 or v5) or its vLLM / SGLang kin. Errors name the key, what it is and what is wanted;
/// unknown keys inside a rope dictionary are warnings.
Result<ModelPositions> parse_hf_config(std::string_view json, const ReadOptions& options = {});
/// The bytes of a GGUF file: metadata and rope tensors; weights are not touched. Errors carry the byte offset.
Result<ModelPositions> parse_gguf(std::span<const std::byte> file, const ReadOptions& options = {});
/// A config.json, a folder that has one, or a GGUF file (mapped, not read whole). not_found where there is none.
Result<ModelPositions> read_model(const std::string& path, const ReadOptions& options = {});

/// The model's positions as a Hugging Face v5 config.json, or an error that says what that dialect cannot say.
Result<std::string> to_hf_config(const ModelPositions& model);
/// The same as GGUF keys and tensors for an architecture ("llama"), as JSON: {"keys": {name: {"type", "value"}}, "tensors": {...}}.
Result<std::string> to_gguf_keys(const ModelPositions& model, std::string_view architecture);

struct ExplainOptions {
  std::optional<std::int64_t> layer = std::nullopt;  // this text layer only; not given: all of them, and the towers
};
/// One screen of plain words, and the same as JSON.
Result<std::string> explain(const ModelPositions& model, const ExplainOptions& options = {});
Result<std::string> explain_json(const ModelPositions& model, const ExplainOptions& options = {});

struct Difference {
  std::string where = {};  // "layers 0-31: base"
  std::string left = {};
  std::string right = {};
  bool matters = true;
  std::string why = {};  // what it changes, with a number
};
Result<std::vector<Difference>> diff(const ModelPositions& left, const ModelPositions& right);

}  // namespace phasor
