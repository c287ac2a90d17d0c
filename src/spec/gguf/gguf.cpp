// SPDX-License-Identifier: Apache-2.0
// parse_gguf: the keys of a GGUF file as ModelPositions.
#include "spec/gguf/gguf.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "math/gain.hpp"
#include "spec/format.hpp"
#include "spec/gguf/architectures.hpp"
#include "spec/gguf/keys.hpp"
#include "spec/gguf/layers.hpp"
#include "spec/gguf/scaling.hpp"
#include "spec/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::spec {
namespace {

constexpr std::int64_t widest_head = 4096;
constexpr std::int64_t largest_length = std::int64_t{1} << 40;

class Model {
 public:
  Model(const GgufKeys& keys, const GgufArchitecture& architecture, const ReadOptions& options)
      : keys_(keys),
        architecture_(architecture),
        context_length_(read_context_length()),
        layers_(layers_of(keys, architecture)),
        scaling_(keys, context_length_, options) {}

  ModelPositions read() {
    ModelPositions model{
        .dialect = "gguf", .model_type = keys_.architecture(), .layers = {}, .towers = {}, .warnings = scaling_.warnings()};
    model.length = context_length_;
    model.trained_length = scaling_.trained_length();
    warn_of_unknown_keys(model.warnings);
    for (std::size_t i = 0; i < layers_.layers.size(); ++i) model.layers.push_back(read_layer(i));
    warn_of_leftover_pairs(model);
    split_encoder(model);
    return model;
  }

 private:
  std::int64_t read_context_length() const {
    const std::int64_t length = keys_.integer("context_length").value_or(0);
    if (length > largest_length) keys_.wrong("context_length", std::to_string(length), "at most 2^40");
    return length;
  }

  LayerPositions read_layer(std::size_t index) const {
    const GgufLayer& kind = layers_.layers[index];
    LayerPositions layer{.type = "", .numerics = Numerics::ggml};
    if (!kind.attends) {
      layer.type = "recurrent";
      return layer;
    }
    if (layers_.some_slide) layer.type = kind.sliding ? "sliding_attention" : "full_attention";
    if (architecture_.name == "deepseek4") layer.type = kind.compressed ? "compress" : "main";
    const bool windowed = architecture_.sliding == GgufSliding::ignored || kind.sliding;
    layer.window = windowed ? layers_.window : 0;
    layer.additive = read_additive();
    layer.bias = read_bias(index);
    layer.attention_scale = read_attention_scale();
    layer.query_temperature = read_temperature(kind);
    layer.output_turned_back = architecture_.name == "deepseek4";
    if (architecture_.layout != GgufLayout::none && kind.rotated && !has_alibi()) layer.rotary = read_rotary(index);
    return layer;
  }

  // ---- Rotary ----

  std::int64_t heads(std::size_t index) const {
    const auto counts = keys_.per_layer("attention.head_count", static_cast<std::int64_t>(layers_.layers.size()));
    if (!counts) keys_.wrong("attention.head_count", "", "a number above 0");
    const std::int64_t count = (*counts)[index];
    if (count < 1 || count > 1 << 20) keys_.wrong("attention.head_count", std::to_string(count), "1 to 2^20");
    return count;
  }

  std::int64_t head_dim(std::size_t index) const {
    const bool sliding = layers_.layers[index].sliding;
    for (const char* key : {sliding ? "attention.key_length_mla_swa" : "", sliding ? "attention.key_length_swa" : "",
                            "attention.key_length_mla", "attention.key_length"}) {
      if (*key != '\0' && keys_.has(key)) return keys_.required(key, 1, widest_head);
    }
    const std::int64_t channels = keys_.required("embedding_length", 1, std::int64_t{1} << 32);
    const std::int64_t count = heads(index);
    if (channels % count != 0) {
      keys_.wrong("embedding_length", std::to_string(channels), spec::format("a multiple of the {} heads, or attention.key_length", count));
    }
    if (channels / count > widest_head) keys_.wrong("embedding_length", std::to_string(channels), "heads of at most 4096 channels");
    return channels / count;
  }

  std::int64_t rotary_width(std::size_t index) const {
    const std::int64_t width = head_dim(index);
    const bool own = layers_.layers[index].sliding && keys_.has("rope.dimension_count_swa");
    const char* key = own ? "rope.dimension_count_swa" : "rope.dimension_count";
    return keys_.has(key) ? keys_.required(key, 2, width) : width;
  }

  double base(std::size_t index) const {
    const GgufLayer& kind = layers_.layers[index];
    if (const auto other = keys_.real("attention.compress_rope_freq_base"); other && kind.compressed) return *other;
    const double full = keys_.real("rope.freq_base").value_or(10000);
    if (!kind.sliding || architecture_.sliding == GgufSliding::every_layer) return full;
    const bool as_full = architecture_.sliding_base == GgufSlidingBase::as_full;
    return keys_.real("rope.freq_base_swa").value_or(as_full ? full : 10000);
  }

  RotarySpec read_rotary(std::size_t index) const {
    const GgufLayer& kind = layers_.layers[index];
    RotarySpec spec{.head_dim = head_dim(index), .rotary_width = rotary_width(index), .base = base(index)};
    // Latent attention keeps its unrotated channels in front.
    if (keys_.is_latent() || architecture_.name == "deepseek4") spec.rotary_offset = spec.head_dim - spec.rotary_width;
    const bool full_only = architecture_.name == "gemma4" || architecture_.name == "gemma4-assistant" || architecture_.name == "step35";
    bool scaled = !kind.sliding || architecture_.sliding_scaling == GgufSlidingScaling::as_full;
    if (architecture_.name == "deepseek4") scaled = kind.compressed;
    spec.scaling = scaling_.of({.width = spec.rotary_width, .scaled = scaled, .with_factors = !(kind.sliding && full_only)});
    read_layout(spec);
    if (Status status = check(spec); !status) fail(spec::format("gguf: layer {}: {}", index, status.message()));
    return spec;
  }

  // ---- Layout ----

  std::vector<std::int64_t> sections() const {
    const auto list = keys_.list("rope.dimension_sections");
    if (!list) return {};
    if (list->size() > 4) keys_.wrong("rope.dimension_sections", spec::format("a list of {}", list->size()), "at most 4");
    std::vector<std::int64_t> result;
    for (const double entry : *list) {
      if (!(entry >= 0 && entry <= widest_head)) keys_.wrong("rope.dimension_sections", spec::format("{}", entry), "0 to 4096 pairs each");
      result.push_back(static_cast<std::int64_t>(entry));
    }
    while (!result.empty() && result.back() == 0) result.pop_back();
    return result;
  }

  bool has_sections() const {
    const std::vector<std::int64_t> list = sections();
    return list.size() > 1 && list[0] > 0 && list[1] > 0;
  }

  void read_layout(RotarySpec& spec) const {
    switch (architecture_.layout) {
      case GgufLayout::none:
      case GgufLayout::half:
        return;
      case GgufLayout::interleaved:
        spec.pairing = Pairing::interleaved;
        return;
      case GgufLayout::interleaved_or_sections:
        if (!has_sections()) spec.pairing = Pairing::interleaved;
        break;
      case GgufLayout::half_or_sections:
        break;
      case GgufLayout::sections_chunked:
      case GgufLayout::sections_interleaved:
        if (sections().empty()) keys_.wrong("rope.dimension_sections", "empty", "the pairs of each axis");
        break;
    }
    if (architecture_.layout >= GgufLayout::interleaved_or_sections && !has_sections()) return;
    read_axes(spec);
  }

  void read_axes(RotarySpec& spec) const {
    const bool interleaved = architecture_.layout == GgufLayout::sections_interleaved;
    spec.axes.sections = sections();
    const std::int64_t pairs = spec.rotary_width / 2;
    std::int64_t sum = 0;
    for (const std::int64_t section : spec.axes.sections) sum += section;
    spec.axes.order = interleaved ? AxisOrder::interleaved : AxisOrder::chunked;
    if (sum == pairs && (!interleaved || spec.axes.sections.size() == 3)) return;
    // ggml begins again with the first section where the pairs outnumber the sections.
    spec.axes.order = AxisOrder::given;
    for (std::int64_t i = 0; i < pairs; ++i) spec.axes.axis_of_pair.push_back(axis_of(i % sum, spec.axes.sections, interleaved));
    spec.axes.sections.clear();
  }

  static std::uint8_t axis_of(std::int64_t pair, const std::vector<std::int64_t>& sections, bool interleaved) {
    if (interleaved) {
      const auto axis = static_cast<std::size_t>(pair % 3);
      return axis < sections.size() && pair < 3 * sections[axis] ? static_cast<std::uint8_t>(axis) : 0;
    }
    std::uint8_t axis = 0;
    std::int64_t end = sections[0];
    while (pair >= end) end += sections[++axis];
    return axis;
  }

  /// ggml turns the pairs that no section claims by a fourth position, 0 for text, where the model turns them by time.
  void warn_of_leftover_pairs(ModelPositions& model) const {
    if (architecture_.layout != GgufLayout::sections_interleaved) return;
    for (const LayerPositions& layer : model.layers) {
      if (!layer.rotary || layer.rotary->axes.sections.size() != 3) continue;
      const std::vector<std::int64_t>& parts = layer.rotary->axes.sections;
      const std::int64_t pairs = layer.rotary->rotary_width / 2;
      std::int64_t leftover = 0;
      for (std::int64_t i = 0; i < pairs; ++i) leftover += i >= 3 * parts[static_cast<std::size_t>(i % 3)] ? 1 : 0;
      if (leftover == 0) return;
      model.warnings.push_back(spec::format(
          "{} pairs beyond their axis' section turn by time, as in the model; llama.cpp turns them by a fourth position", leftover));
      return;
    }
  }

  // ---- What is not rotary ----

  double alibi() const {
    const std::string_view name = architecture_.name;
    const bool always =
        name == "bloom" || name == "refact" || name == "jina-bert-v2" || (name == "baichuan" && layers_.layers.size() == 40);
    const double given = keys_.real("attention.max_alibi_bias").value_or(always ? 8 : 0);
    if (given < 0) keys_.wrong("attention.max_alibi_bias", spec::format("{}", given), "0 or above");
    return given;
  }
  bool has_alibi() const { return alibi() > 0; }
  bool is_t5() const { return architecture_.name == "t5" || architecture_.name == "t5encoder"; }

  std::optional<ModelBias> read_bias(std::size_t index) const {
    if (has_alibi()) return ModelBias{.kind = ModelBias::Kind::alibi, .heads = heads(index), .max_alibi = alibi()};
    if (!is_t5()) return std::nullopt;
    const std::int64_t buckets = keys_.required("attention.relative_buckets_count", 2, 1 << 20);
    return ModelBias{.kind = ModelBias::Kind::t5_buckets,
                     .heads = heads(index),
                     .buckets = buckets,
                     .max_distance = 128,  // not in the file: llama.cpp has it in its code, as every T5 does
                     .bidirectional = architecture_.name == "t5encoder"};
  }

  /// From the table, or where a file has none (one of a vocabulary alone) from what its architecture cannot be without.
  std::optional<ModelAdditive> read_additive() const {
    const auto found = keys_.file().tensors.find("position_embd.weight");
    if (found != keys_.file().tensors.end() && found->second.shape.size() == 2) {
      return ModelAdditive{.kind = ModelAdditive::Kind::learned,
                           .length = static_cast<std::int64_t>(found->second.shape[1]),
                           .width = static_cast<std::int64_t>(found->second.shape[0])};
    }
    const bool unless_alibi = architecture_.learned == GgufLearned::unless_alibi && !has_alibi() && keys_.file().tensors.empty();
    if (architecture_.learned != GgufLearned::always && !unless_alibi) return std::nullopt;
    return ModelAdditive{
        .kind = ModelAdditive::Kind::learned, .length = context_length_, .width = keys_.integer("embedding_length").value_or(0)};
  }

  std::optional<double> read_attention_scale() const {
    const std::string_view name = architecture_.name;
    if (is_t5() || name == "gemma3n" || name == "gemma4" || name == "gemma4-assistant") return 1;
    // The 27B models divide by the root of another number than their head's width.
    const std::size_t count = layers_.layers.size();
    if ((name == "gemma2" && count == 46) || (name == "gemma3" && count == 62)) {
      const std::int64_t channels = keys_.required("embedding_length", 1, std::int64_t{1} << 32);
      return math::attention_scale(static_cast<double>(std::max<std::int64_t>(channels / heads(0), 1)));
    }
    const auto given = keys_.real("attention.scale");
    return given && *given != 0 ? given : std::nullopt;
  }

  std::optional<QueryTemperature> read_temperature(const GgufLayer& kind) const {
    if (architecture_.name == "llama4") {
      if (layers_.window == 0 || kind.rotated) return std::nullopt;
      return QueryTemperature{.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1};
    }
    const double scale = keys_.real("attention.temperature_scale").value_or(0);
    if (scale == 0) return std::nullopt;
    const std::int64_t length = keys_.integer("attention.temperature_length").value_or(scaling_.trained_length());
    if (length < 1) keys_.wrong("attention.temperature_length", std::to_string(length), "a number above 0");
    return QueryTemperature{.kind = QueryTemperature::Kind::floored_log, .scale = scale, .length = length, .shift = 0};
  }

  /// T5's file counts the encoder's layers; the decoder's are the model's.
  void split_encoder(ModelPositions& model) const {
    if (architecture_.name != "t5") return;
    ModelTower encoder{.name = "encoder", .layers = model.layers};
    for (LayerPositions& layer : encoder.layers) {
      if (layer.bias) layer.bias->bidirectional = true;
    }
    const LayerPositions decoder = model.layers.front();
    const std::int64_t count =
        keys_.has("decoder_block_count") ? keys_.required("decoder_block_count", 1, 1024) : static_cast<std::int64_t>(model.layers.size());
    model.layers.assign(static_cast<std::size_t>(count), decoder);
    model.towers.push_back(std::move(encoder));
  }

  void warn_of_unknown_keys(std::vector<std::string>& warnings) const {
    static constexpr std::array<std::string_view, 18> known = {"dimension_count",
                                                               "dimension_count_swa",
                                                               "dimension_sections",
                                                               "freq_base",
                                                               "freq_base_swa",
                                                               "scale_linear",
                                                               "scaling.type",
                                                               "scaling.factor",
                                                               "scaling.alpha",
                                                               "scaling.attn_factor",
                                                               "scaling.finetuned",
                                                               "scaling.original_context_length",
                                                               "scaling.yarn_beta_fast",
                                                               "scaling.yarn_beta_slow",
                                                               "scaling.yarn_attn_factor",
                                                               "scaling.yarn_ext_factor",
                                                               "scaling.yarn_log_multiplier"};
    const std::string prefix = keys_.full("rope.");
    for (auto at = keys_.file().keys.lower_bound(prefix); at != keys_.file().keys.end() && at->first.starts_with(prefix); ++at) {
      const std::string_view name = std::string_view(at->first).substr(prefix.size());
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        warnings.push_back(spec::format("key {} is not known and not used", at->first));
      }
    }
  }

  const GgufKeys& keys_;
  const GgufArchitecture& architecture_;
  std::int64_t context_length_;
  GgufLayers layers_;
  GgufScaling scaling_;
};

}  // namespace

ModelPositions positions_of(const GgufFile& file, const ReadOptions& options) {
  const auto found = file.keys.find("general.architecture");
  if (found == file.keys.end()) fail("gguf: general.architecture is missing, wanted the name of the model's architecture");
  const auto* name = std::get_if<std::string>(&found->second.content);
  if (name == nullptr) fail(spec::format("gguf: byte {}: general.architecture is of another type, wanted a string", found->second.offset));
  const GgufArchitecture* architecture = find_gguf_architecture(*name);
  if (architecture == nullptr) {
    throw ReadError{Status::unsupported(
        spec::format("gguf: byte {}: general.architecture is {}, which is not known: how it pairs channels is not in the file",
                     found->second.offset, *name))};
  }
  const GgufKeys keys(file, *name);
  return Model(keys, *architecture, options).read();
}

Result<ModelPositions> parse_gguf_bytes(const GgufBytes& bytes, const ReadOptions& options, bool* needs_more) {
  if (needs_more != nullptr) *needs_more = false;
  return without_exceptions("gguf", [&]() -> Result<ModelPositions> {
    try {
      return positions_of(read_gguf_file(bytes), options);
    } catch (const ReadError& error) {
      if (needs_more != nullptr) *needs_more = error.past_end;
      return error.status;
    }
  });
}

}  // namespace phasor::spec

namespace phasor {

Result<ModelPositions> parse_gguf(std::span<const std::byte> file, const ReadOptions& options) {
  return spec::parse_gguf_bytes({.head = file, .size = file.size()}, options);
}

}  // namespace phasor
