// SPDX-License-Identifier: Apache-2.0
// The rope types of Hugging Face, vLLM and SGLang: one small function each, and the table of them.
#include "spec/hf/rope_types.hpp"

#include <algorithm>
#include <cmath>

#include "math/gain.hpp"

namespace phasor::spec {
namespace {

constexpr std::int64_t longest = std::int64_t{1} << 48;  // positions; keeps products of lengths inside int64

// ---- Lengths ----

/// The dictionary's, else the model's; in a flat dictionary the top level wins.
std::int64_t original_length(const RopeInput& in) {
  const std::optional<std::int64_t> own = in.dict->count({"original_max_position_embeddings"}, longest);
  const std::int64_t length = in.frame->original_length.value_or(own.value_or(in.frame->length));
  if (length <= 0) in.dict->missing("original_max_position_embeddings", "the positions of the training");
  return length;
}

std::int64_t model_length(const RopeInput& in) {
  if (in.frame->length <= 0) in.dict->missing("max_position_embeddings", "the positions of the model");
  return in.frame->length;
}

double length_ratio(const RopeInput& in, std::int64_t original) {
  return static_cast<double>(model_length(in)) / static_cast<double>(original);
}

std::int64_t extended(double factor, std::int64_t length) {
  return static_cast<std::int64_t>(std::min(factor * static_cast<double>(length), static_cast<double>(longest)));
}

// ---- Types ----

RopeScaling read_default(const RopeInput&) { return {}; }

RopeScaling read_linear(const RopeInput& in) { return {.scaling = LinearScaling{.factor = in.dict->required_positive("factor")}}; }

RopeScaling read_proportional(const RopeInput& in) {
  ProportionalScaling scaling;
  scaling.factor = in.dict->positive({"factor"}).value_or(1);
  scaling.share = in.dict->number({"partial_rotary_factor"}).value_or(1);
  return {.scaling = scaling};
}

/// alpha fixes the base for good (HunYuan); without it the length in use decides.
RopeScaling read_dynamic(const RopeInput& in) {
  if (const std::optional<double> alpha = in.dict->positive({"alpha"})) return {.scaling = NtkScaling{.alpha = *alpha}};
  DynamicNtkScaling scaling;
  scaling.factor = in.dict->required_positive("factor");
  scaling.trained_length = in.dict->count({"max_trained_positions"}, longest).value_or(model_length(in));
  scaling.length = std::max(in.options->length, scaling.trained_length);
  return {
      .scaling = scaling, .trained_length = scaling.trained_length, .extended_length = extended(scaling.factor, scaling.trained_length)};
}

RopeScaling read_xdrope(const RopeInput& in) { return {.scaling = NtkScaling{.alpha = in.dict->required_positive("alpha")}}; }

RopeScaling read_ntk(const RopeInput& in) {
  NtkMixedScaling scaling;
  scaling.factor = in.dict->required_positive("factor");
  scaling.mixed_exponent = in.dict->number({"mixed_b"});
  return {.scaling = scaling};
}

/// A null factor means the ratio of the lengths; a missing one is an error, as it is for transformers.
double yarn_factor(const RopeInput& in, std::int64_t original) {
  if (in.dict->mentions("factor") && !in.dict->has("factor")) return length_ratio(in, original);
  return in.dict->required_positive("factor");
}

/// null and 0 mean the default, as they do for transformers.
double beta(const RopeInput& in, std::string_view key, double otherwise) {
  const std::optional<double> value = in.dict->number({key});
  if (!value || *value == 0) return otherwise;
  return *in.dict->positive({key});
}

void refuse_extrapolation(const RopeInput& in) {
  const std::optional<double> share = in.dict->number({"extrapolation_factor"});
  if (share && *share != 1) {
    fail_unsupported(in.dict->path_of("extrapolation_factor") + " is " + in.dict->find({"extrapolation_factor"}).json->describe() +
                     ", wanted 1");
  }
}

YarnScaling yarn(const RopeInput& in) {
  refuse_extrapolation(in);
  YarnScaling scaling;
  scaling.original_length = original_length(in);
  scaling.factor = yarn_factor(in, scaling.original_length);
  scaling.beta_fast = beta(in, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = beta(in, "beta_slow", scaling.beta_slow);
  if (!in.dict->boolean({"truncate"}).value_or(true)) scaling.ramp = YarnRamp::exact;
  scaling.attention_factor = in.dict->positive({"attention_factor"});
  if (!scaling.attention_factor) scaling.attention_factor = in.frame->attention_factor;
  scaling.mscale = in.dict->number({"mscale"});
  scaling.mscale_all_dim = in.dict->number({"mscale_all_dim"});
  const bool squared = in.frame->model->has(quirk_softmax_mscale);
  scaling.softmax = squared ? YarnSoftmax::mscale_all_dim_squared : YarnSoftmax::unchanged;
  if (!in.dict->boolean({"apply_yarn_scaling"}).value_or(true)) scaling.attention_factor = 1;
  return scaling;
}

RopeScaling finished(const YarnScaling& scaling) {
  const std::int64_t original = scaling.original_length;
  const std::int64_t to = extended(scaling.factor, original);
  return {.scaling = scaling, .trained_length = original, .extended_length = to};
}

/// vLLM's attn_factor multiplies what the formula gives; transformers' attention_factor replaces it. Mixing them up is the trap.
void multiply_amplitude(YarnScaling& scaling, double formula, double attn_factor) {
  if (attn_factor != 1) scaling.attention_factor = scaling.attention_factor.value_or(formula) * attn_factor;
}

double attn_factor(const RopeInput& in) { return in.dict->positive({"attn_factor"}).value_or(1); }

/// What the plan would compute for the amplitude.
double yarn_amplitude(const YarnScaling& s) {
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return math::log_gain(s.factor, 0.1 * *s.mscale) / math::log_gain(s.factor, 0.1 * *s.mscale_all_dim);
  }
  return math::log_gain(s.factor, 0.1);
}

RopeScaling read_yarn(const RopeInput& in) {
  YarnScaling scaling = yarn(in);
  multiply_amplitude(scaling, yarn_amplitude(scaling), attn_factor(in));
  return finished(scaling);
}

/// mscale is 1 and mscale_all_dim 0 unless said, and both always count.
YarnScaling deepseek_yarn(const RopeInput& in) {
  YarnScaling scaling = yarn(in);
  const double mscale = scaling.mscale.value_or(1);
  const double all_dim = scaling.mscale_all_dim.value_or(0);
  const double formula = math::log_gain(scaling.factor, 0.1 * mscale) / math::log_gain(scaling.factor, 0.1 * all_dim);
  scaling.attention_factor = scaling.attention_factor.value_or(formula) * attn_factor(in);
  scaling.softmax = YarnSoftmax::mscale_all_dim_squared;
  return scaling;
}

RopeScaling read_deepseek_yarn(const RopeInput& in) { return finished(deepseek_yarn(in)); }

/// What vLLM calls it when the softmax scale is left alone.
RopeScaling read_deepseek_llama(const RopeInput& in) {
  YarnScaling scaling = deepseek_yarn(in);
  scaling.softmax = YarnSoftmax::unchanged;
  return finished(scaling);
}

/// YaRN with a slope of 0.07 instead of 0.1.
RopeScaling read_telechat3_yarn(const RopeInput& in) {
  YarnScaling scaling = yarn(in);
  scaling.attention_factor = scaling.attention_factor.value_or(math::log_gain(scaling.factor, 0.07)) * attn_factor(in);
  return finished(scaling);
}

std::vector<double> factor_list(const RopeInput& in, std::string_view key) {
  const std::optional<std::vector<double>> list = in.dict->numbers({key});
  const std::string wanted = "a list of " + std::to_string(in.width / 2) + " numbers above 0, half the rotary width";
  if (!list) in.dict->missing(key, wanted);
  const bool fits = static_cast<std::int64_t>(list->size()) == in.width / 2;
  if (!fits || !std::all_of(list->begin(), list->end(), [](double x) { return x > 0; })) in.dict->find({key}).wrong(wanted);
  return *list;
}

/// short_mscale and long_mscale, of vLLM and Phi-3-small, are amplitudes of the two lists.
RopeScaling read_longrope(const RopeInput& in) {
  LongRopeScaling scaling;
  scaling.short_factors = factor_list(in, "short_factor");
  scaling.long_factors = factor_list(in, "long_factor");
  scaling.original_length = original_length(in);
  const std::optional<double> factor = in.dict->positive({"factor"});
  scaling.factor = factor ? *factor : length_ratio(in, scaling.original_length);
  scaling.attention_factor = in.dict->positive({"attention_factor"});
  scaling.length = in.options->length > 0 ? in.options->length : scaling.original_length;
  const bool is_long = scaling.length > scaling.original_length;
  const std::optional<double> own = in.dict->positive({is_long ? "long_mscale" : "short_mscale"});
  if (own && !scaling.attention_factor) scaling.attention_factor = own;
  const std::int64_t original = scaling.original_length;
  return {.scaling = std::move(scaling), .trained_length = original};
}

RopeScaling read_llama3(const RopeInput& in) {
  Llama3Scaling scaling;
  scaling.factor = in.dict->required_positive("factor");
  scaling.low_freq_factor = in.dict->required_positive("low_freq_factor");
  scaling.high_freq_factor = in.dict->required_positive("high_freq_factor");
  scaling.original_length = original_length(in);
  return {.scaling = scaling, .trained_length = scaling.original_length};
}

RopeScaling read_fope(const RopeInput& in) {
  fail_unsupported(in.dict->path() + " asks for FoPE, whose coefficients are in the weights, wanted a rotary encoding");
}

// ---- The table ----

const RopeType types[] = {
    {"default", read_default, {}},
    {"mrope", read_default, {}},
    {"axial", read_default, {}},
    {"openpangu", read_default, {}},
    {"mllama4", read_default, {}},
    {"linear", read_linear, {"factor"}},
    {"proportional", read_proportional, {"factor"}, true},
    {"dynamic", read_dynamic, {"factor", "alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "max_trained_positions"}},
    {"xdrope", read_xdrope, {"factor", "alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}},
    {"ntk", read_ntk, {"factor", "mixed_b"}},
    {"yarn",
     read_yarn,
     {"factor", "original_max_position_embeddings", "attention_factor", "attn_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
      "truncate", "extrapolation_factor", "apply_yarn_scaling", "finetuned"}},
    {"deepseek_yarn",
     read_deepseek_yarn,
     {"factor", "original_max_position_embeddings", "attention_factor", "attn_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
      "extrapolation_factor"}},
    {"deepseek_llama_scaling",
     read_deepseek_llama,
     {"factor", "original_max_position_embeddings", "attention_factor", "attn_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
      "extrapolation_factor"}},
    {"telechat3-yarn",
     read_telechat3_yarn,
     {"factor", "original_max_position_embeddings", "attention_factor", "attn_factor", "beta_fast", "beta_slow", "extrapolation_factor"}},
    {"longrope",
     read_longrope,
     {"factor", "short_factor", "long_factor", "original_max_position_embeddings", "attention_factor", "short_mscale", "long_mscale"}},
    {"llama3", read_llama3, {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"fope", read_fope, {}},
};

}  // namespace

const RopeType* find_rope_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(types), std::end(types), [&](const RopeType& type) { return type.name == name; });
  return found == std::end(types) ? nullptr : found;
}

}  // namespace phasor::spec
