// SPDX-License-Identifier: Apache-2.0
// to_gguf_keys: a model's positions as GGUF keys, read back before they are given out: what does not come back the same is an error.
#include <algorithm>
#include <cmath>

#include "plan/gguf_keys_json.hpp"
#include "plan/real.hpp"
#include "plan/rotary.hpp"
#include "spec/format.hpp"
#include "spec/gguf/architectures.hpp"
#include "spec/gguf/gguf.hpp"
#include "spec/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using plan::GgufKeyWriter;
using spec::fail;
using spec::GgufArchitecture;
using spec::GgufLayout;
using spec::GgufType;

// float32 keys: a base costs a frequency up to one rounding, a factor another.
constexpr double float32_error = 0x1p-22;

[[noreturn]] void cannot(std::string_view what) { fail(spec::format("to_gguf_keys: GGUF cannot say {}", what)); }

plan::RotaryPlan plan_of(RotarySpec spec) {
  spec.axes = {};  // frequencies of the ladder that all axes share
  Result<plan::RotaryPlan> made = plan::make_rotary_plan(spec);
  if (!made) fail("to_gguf_keys: " + made.status().message());
  return std::move(*made);
}

/// w_i over the spec's frequency, for rope_freqs: 1e30 where a pair does not turn.
std::vector<double> factors_of(RotarySpec spec) {
  const std::vector<double> scaled = plan_of(spec).frequencies;
  spec.scaling = Unscaled{};
  std::vector<double> factors = plan_of(spec).frequencies;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (scaled[i] < 0) cannot("a negative frequency");
    factors[i] = scaled[i] == 0 ? 1e30 : factors[i] / scaled[i];
  }
  return factors;
}

// ---- Scalings ----

class ScalingWriter {
 public:
  ScalingWriter(GgufKeyWriter& keys, const RotarySpec& spec, std::string_view architecture)
      : keys_(keys), spec_(spec), architecture_(architecture) {}

  void operator()(const Unscaled& /*s*/) const {}
  void operator()(const LinearScaling& s) const {
    keys_.text("rope.scaling.type", "linear");
    keys_.real("rope.scaling.factor", s.factor);
  }
  void operator()(const NtkScaling& s) const {
    if (architecture_ == "hunyuan_vl") return keys_.real("rope.scaling.alpha", s.alpha);
    const std::int64_t width = spec::rotary_width(spec_);
    const plan::Real exponent = plan::Real(width) / (width - 2);
    keys_.real("rope.freq_base", plan::nearest_double(plan::exponential(plan::natural_log(plan::Real(s.alpha)) * exponent) * spec_.base));
  }
  void operator()(const NtkMixedScaling& /*s*/) const { by_factors(); }
  void operator()(const DynamicNtkScaling& /*s*/) const { cannot("dynamic NTK scaling"); }
  void operator()(const YarnScaling& s) const {
    if (s.ramp == YarnRamp::exact) cannot("that the ends of YaRN's ramp are not rounded (truncate: false)");
    keys_.text("rope.scaling.type", "yarn");
    keys_.real("rope.scaling.factor", s.factor);
    keys_.integer("rope.scaling.original_context_length", s.original_length);
    if (s.beta_fast != 32 || architecture_ == "grok") keys_.real("rope.scaling.yarn_beta_fast", s.beta_fast);
    if (s.beta_slow != 1) keys_.real("rope.scaling.yarn_beta_slow", s.beta_slow);
    write_mscale(s);
  }
  void operator()(const LongRopeScaling& s) const {
    keys_.text("rope.scaling.type", "longrope");
    keys_.integer("rope.scaling.original_context_length", s.original_length);
    keys_.real("rope.scaling.attn_factor", plan_of(spec_).amplitude);
    keys_.tensor("rope_factors_short.weight", s.short_factors);
    keys_.tensor("rope_factors_long.weight", s.long_factors);
  }
  void operator()(const Llama3Scaling& /*s*/) const { by_factors(); }
  void operator()(const ProportionalScaling& s) const {
    RotarySpec unscaled = spec_;
    unscaled.scaling = ProportionalScaling{.factor = 1, .share = s.share};
    keys_.tensor("rope_freqs.weight", factors_of(unscaled));
    if (s.factor != 1) (*this)(LinearScaling{.factor = s.factor});
  }
  void operator()(const GivenFactors& s) const {
    keys_.tensor("rope_freqs.weight", s.factors);
    if (s.amplitude != 1) keys_.real("rope.scaling.attn_factor", s.amplitude);
  }
  void operator()(const GivenFrequencies& s) const {
    by_factors();
    if (s.amplitude != 1) keys_.real("rope.scaling.attn_factor", s.amplitude);
  }
  void operator()(const GivenDirections& /*s*/) const { cannot("directions of pairs"); }

 private:
  void by_factors() const { keys_.tensor("rope_freqs.weight", factors_of(spec_)); }

  void write_mscale(const YarnScaling& s) const {
    const double all_dim = s.mscale_all_dim.value_or(0);
    if (s.attention_factor) return keys_.real("rope.scaling.yarn_attn_factor", *s.attention_factor);
    if (all_dim == 0 || !spec::reads_log_multiplier(architecture_)) {
      // Otherwise the default: g(1).
      if (all_dim != 0 && s.mscale.value_or(0) != 0) keys_.real("rope.scaling.yarn_attn_factor", plan_of(spec_).amplitude);
      return;
    }
    const double mscale = s.mscale.value_or(0);
    const double expected = architecture_ == "deepseek2" ? all_dim : 1;
    if (mscale != expected) cannot(spec::format("an mscale of {} for {}, only {}", mscale, architecture_, expected));
    keys_.real("rope.scaling.yarn_log_multiplier", spec::is_latent(architecture_) ? all_dim / 10 : all_dim);
  }

  GgufKeyWriter& keys_;
  const RotarySpec& spec_;
  std::string_view architecture_;
};

// ---- Keys of the model ----

Pairing pairing_of(const GgufArchitecture& architecture, const RotarySpec& spec) {
  if (architecture.layout == GgufLayout::interleaved) return Pairing::interleaved;
  if (architecture.layout == GgufLayout::interleaved_or_sections && spec.axes.sections.empty()) return Pairing::interleaved;
  return Pairing::half;
}

/// What no key and no architecture can say.
void check_rotary(const RotarySpec& spec, const GgufArchitecture& architecture) {
  if (architecture.layout == GgufLayout::none) cannot(spec::format("rotary positions for {}, which has none", architecture.name));
  if (spec.pairing != pairing_of(architecture, spec)) {
    cannot(spec::format("the pairing: {} is {} there, the model is not; permute its weights", architecture.name,
                        spec.pairing == Pairing::half ? "interleaved" : "half"));
  }
  if (spec.output_pairing && *spec.output_pairing != spec.pairing) cannot("a pairing of the output other than of the input");
  const std::int64_t tail = spec.head_dim - spec::rotary_width(spec);
  if (spec.rotary_offset != (spec::is_latent(architecture.name) ? tail : 0)) {
    cannot(spec::format("a rotary offset of {} for {}", spec.rotary_offset, architecture.name));
  }
  if (spec.sense != Sense::counterclockwise) cannot("a clockwise sense");
  if (spec.segments != 1 || spec.lanes != Lanes::alike || spec.unit != FrequencyUnit::radians)
    cannot("segments, per-channel frequencies or turns");
  if (spec.axes.ladder != AxisLadder::shared) cannot("a ladder for each axis");
}

const RotarySpec* find_rotary(const ModelPositions& model, bool sliding) {
  for (const LayerPositions& layer : model.layers) {
    if (layer.rotary && (layer.window > 0) == sliding) return &*layer.rotary;
  }
  return nullptr;
}

std::vector<double> sections_of(const Axes& axes) {
  std::vector<double> sections(axes.sections.begin(), axes.sections.end());
  if (sections.empty() || sections.size() > 4) cannot("axes without sections, or more than 4");
  sections.resize(4, 0);
  return sections;
}

void write_rotary(GgufKeyWriter& keys, const RotarySpec& spec, const GgufArchitecture& architecture) {
  check_rotary(spec, architecture);
  keys.integer(spec::is_latent(architecture.name) ? "attention.key_length_mla" : "attention.key_length", spec.head_dim);
  keys.integer("rope.dimension_count", spec::rotary_width(spec));
  keys.real("rope.freq_base", spec.base);
  if (!spec.axes.sections.empty() || !spec.axes.axis_of_pair.empty()) {
    keys.list("rope.dimension_sections", sections_of(spec.axes), GgufType::i32);
  }
  std::visit(ScalingWriter(keys, spec, architecture.name), spec.scaling);
}

void write_sliding_rotary(GgufKeyWriter& keys, const RotarySpec& spec, const RotarySpec& full, const GgufArchitecture& architecture) {
  check_rotary(spec, architecture);
  if (spec.base != full.base || architecture.sliding_base == spec::GgufSlidingBase::ten_thousand)
    keys.real("rope.freq_base_swa", spec.base);
  if (spec.head_dim != full.head_dim) keys.integer("attention.key_length_swa", spec.head_dim);
  if (spec::rotary_width(spec) != spec::rotary_width(full)) keys.integer("rope.dimension_count_swa", spec::rotary_width(spec));
}

/// The window, and which layers have it.
void write_window(GgufKeyWriter& keys, const ModelPositions& model, const GgufArchitecture& architecture) {
  const auto windowed = std::find_if(model.layers.begin(), model.layers.end(), [](const LayerPositions& l) { return l.window > 0; });
  if (windowed == model.layers.end()) {
    if (architecture.sliding != spec::GgufSliding::ignored) keys.integer("attention.sliding_window", 0);
    return;
  }
  keys.integer("attention.sliding_window", windowed->window);
  if (architecture.sliding == spec::GgufSliding::ignored) return;
  std::vector<double> pattern;
  pattern.reserve(model.layers.size());
  bool by_default = true;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto period = static_cast<std::size_t>(std::max<std::int64_t>(architecture.period, 1));
    const bool full = i % period == (architecture.sliding == spec::GgufSliding::full_first ? 0 : period - 1);
    pattern.push_back(model.layers[i].window > 0 ? 1 : 0);
    by_default = by_default && (model.layers[i].window > 0) != full;
  }
  if (!by_default) keys.list("attention.sliding_window_pattern", pattern, GgufType::boolean);
}

void write_others(GgufKeyWriter& keys, const LayerPositions& layer, const GgufArchitecture& architecture) {
  if (layer.bias) keys.integer("attention.head_count", layer.bias->heads);
  if (layer.bias && layer.bias->kind == ModelBias::Kind::alibi) keys.real("attention.max_alibi_bias", layer.bias->max_alibi);
  if (layer.bias && layer.bias->kind == ModelBias::Kind::t5_buckets) keys.integer("attention.relative_buckets_count", layer.bias->buckets);
  if (layer.attention_scale && !layer.bias) keys.real("attention.scale", *layer.attention_scale);
  if (layer.additive) {
    keys.existing_tensor("position_embd.weight",
                         {static_cast<std::uint64_t>(layer.additive->width), static_cast<std::uint64_t>(layer.additive->length)});
  }
  if (!layer.query_temperature || architecture.name == "llama4") return;
  keys.real("attention.temperature_scale", layer.query_temperature->scale);
  keys.integer("attention.temperature_length", layer.query_temperature->length);
}

void write_unrotated(GgufKeyWriter& keys, const ModelPositions& model, const GgufArchitecture& architecture) {
  const bool some = std::any_of(model.layers.begin(), model.layers.end(), [](const LayerPositions& l) { return l.rotary.has_value(); });
  if (architecture.unrotated == spec::GgufUnrotated::by_finetuned && !some) keys.flag("rope.scaling.finetuned", false);
  if (architecture.name != "granite_swa") return;
  std::vector<double> pattern;
  pattern.reserve(model.layers.size());
  for (const LayerPositions& layer : model.layers) pattern.push_back(layer.rotary ? 1 : 0);
  keys.list("attention.rope_pattern", pattern, GgufType::i32);
}

void write_recurrent(GgufKeyWriter& keys, const ModelPositions& model) {
  std::vector<double> recurrent;
  recurrent.reserve(model.layers.size());
  for (const LayerPositions& layer : model.layers)
    recurrent.push_back(layer.type == "recurrent" || layer.type == "linear_attention" ? 1 : 0);
  if (std::count(recurrent.begin(), recurrent.end(), 1.0) > 0) keys.list("attention.recurrent_layers", recurrent, GgufType::boolean);
}

GgufKeyWriter write_model(const ModelPositions& model, const GgufArchitecture& architecture) {
  if (model.layers.empty()) fail("to_gguf_keys: the model has no layers");
  if (architecture.name == "deepseek4") cannot("DeepSeek-V4's compression ratios: they are not among its positions");
  GgufKeyWriter keys{std::string(architecture.name)};
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const bool has_encoder = architecture.name == "t5" && !model.towers.empty();
  keys.integer("block_count", has_encoder ? static_cast<std::int64_t>(model.towers[0].layers.size()) : layers);
  if (has_encoder) keys.integer("decoder_block_count", layers);
  if (model.length > 0) keys.integer("context_length", model.length);
  write_window(keys, model, architecture);
  write_recurrent(keys, model);
  write_unrotated(keys, model, architecture);
  const auto positioned = std::find_if(model.layers.begin(), model.layers.end(),
                                       [](const LayerPositions& l) { return l.query_temperature || l.bias || l.rotary; });
  write_others(keys, positioned == model.layers.end() ? model.layers.front() : *positioned, architecture);
  const RotarySpec* sliding = find_rotary(model, true);
  const RotarySpec* full = find_rotary(model, false);
  if (full == nullptr) full = sliding;
  if (full != nullptr) write_rotary(keys, *full, architecture);
  if (sliding != nullptr && sliding != full) write_sliding_rotary(keys, *sliding, *full, architecture);
  return keys;
}

// ---- Reading back ----

bool close(double a, double b) { return std::fabs(a - b) <= float32_error * std::max(std::fabs(a), std::fabs(b)); }

/// What differs, or nothing.
std::string difference(const RotarySpec& wanted, const RotarySpec& got) {
  if (wanted.head_dim != got.head_dim) return "head_dim";
  if (spec::rotary_width(wanted) != spec::rotary_width(got)) return "rotary width";
  if (wanted.axes.sections != got.axes.sections || (!wanted.axes.sections.empty() && wanted.axes.order != got.axes.order)) return "axes";
  const plan::RotaryPlan left = plan_of(wanted);
  const plan::RotaryPlan right = plan_of(got);
  // A pair of 1e30 does not turn.
  const auto alike = [](double a, double b) { return close(a, b) || (a == 0 && b < 1e-29); };
  if (!std::equal(left.frequencies.begin(), left.frequencies.end(), right.frequencies.begin(), alike)) return "frequencies";
  if (!close(left.amplitude, right.amplitude)) return "amplitude";
  return close(left.softmax_scale, right.softmax_scale) ? "" : "softmax scale";
}

std::string difference(const LayerPositions& wanted, const LayerPositions& got) {
  if (wanted.rotary.has_value() != got.rotary.has_value()) return "whether it is rotated";
  if (wanted.bias.has_value() != got.bias.has_value()) return "bias";
  if (wanted.bias && (wanted.bias->kind != got.bias->kind || wanted.bias->max_distance != got.bias->max_distance)) return "bias";
  if (wanted.additive.has_value() != got.additive.has_value()) return "added positions";
  if (wanted.window != got.window) return "window";
  if (wanted.attention_scale && !(got.attention_scale && close(*wanted.attention_scale, *got.attention_scale))) return "attention scale";
  if (wanted.query_temperature.has_value() != got.query_temperature.has_value()) return "query temperature";
  if (wanted.query_temperature &&
      (wanted.query_temperature->kind != got.query_temperature->kind || wanted.query_temperature->shift != got.query_temperature->shift)) {
    return "query temperature";
  }
  return wanted.rotary ? difference(*wanted.rotary, *got.rotary) : "";
}

void check_read_back(const ModelPositions& model, const GgufKeyWriter& keys) {
  ReadOptions options;
  for (const LayerPositions& layer : model.layers) {
    const auto* longrope = layer.rotary ? std::get_if<LongRopeScaling>(&layer.rotary->scaling) : nullptr;
    if (longrope == nullptr) continue;
    options.length = longrope->choice == LongRopeChoice::long_factors ? longrope->original_length + 1 : longrope->length;
    if (longrope->choice == LongRopeChoice::short_factors) options.length = longrope->original_length;
  }
  const ModelPositions got = spec::positions_of(keys.file(), options);
  if (got.layers.size() != model.layers.size()) cannot("that number of layers");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const std::string what = difference(model.layers[i], got.layers[i]);
    if (!what.empty()) cannot(spec::format("what layer {} does, for {}: its {} would be another", i, got.model_type, what));
  }
}

}  // namespace

Result<std::string> to_gguf_keys(const ModelPositions& model, std::string_view architecture) {
  return spec::without_exceptions("to_gguf_keys", [&]() -> Result<std::string> {
    try {
      const GgufArchitecture* known = spec::find_gguf_architecture(architecture);
      if (known == nullptr) return Status::unsupported(spec::format("to_gguf_keys: architecture {} is not known", architecture));
      const GgufKeyWriter keys = write_model(model, *known);
      check_read_back(model, keys);
      return keys.json();
    } catch (const spec::ReadError& error) {
      return error.status;
    }
  });
}

}  // namespace phasor
