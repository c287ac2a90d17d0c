// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "pairs.hpp"

namespace phasor_ggml {
namespace {

/// A spec with the lists that it points to.
struct Spec {
  explicit Spec(const Rope& rope, phasor_numerics numerics) {
    values.size = sizeof values;
    values.head_dim = rope.head_dim;
    values.rotary_width = 2 * rope.pairs();
    values.rotary_offset = rope.offset;
    values.base = rope.base;
    values.pairing = rope.mode == GGML_ROPE_TYPE_NORMAL ? PHASOR_PAIRING_INTERLEAVED : PHASOR_PAIRING_HALF;
    values.numerics = numerics;
    scaling.size = sizeof scaling;
  }
  Spec(const Spec&) = delete;
  Spec& operator=(const Spec&) = delete;

  void list(phasor_scaling_kind kind, std::vector<double> entries, double amplitude) {
    numbers = std::move(entries);
    scaling.kind = kind;
    scaling.values = numbers.data();
    scaling.value_count = numbers.size();
    scaling.amplitude = amplitude;
  }
  void make(Plan& plan) {
    values.scaling = scaling.kind == PHASOR_SCALING_NONE ? nullptr : &scaling;
    phasor_rotary* rotary = nullptr;
    if (phasor_rotary_make(&values, &rotary, &plan.error) == PHASOR_OK) plan.rotary.reset(rotary);
  }

  phasor_rotary_spec values = {};
  phasor_scaling scaling = {};
  std::vector<double> numbers;
  std::vector<std::uint8_t> axes;
  std::array<std::int64_t, 2> halves = {};
};

void refuse(Plan& plan, const char* message) {
  plan.error.status = PHASOR_UNSUPPORTED;
  std::snprintf(plan.error.message, sizeof plan.error.message, "phasor: ggml's rope %s", message);
}

// ---- Axes ----

void give_axes(const Rope& rope, const std::vector<Pair>& pairs, Spec& spec, Plan& plan) {
  if (!rope.has_axes()) return;
  for (const Pair& pair : pairs) spec.axes.push_back(pair.axis);
  plan.axes = *std::max_element(spec.axes.begin(), spec.axes.end()) + 1;
  spec.values.axes.order = PHASOR_AXES_GIVEN;
  spec.values.axes.axis_of_pair = spec.axes.data();
  spec.values.axes.axis_of_pair_count = spec.axes.size();
}

/// What vision models have: two axes with half of the pairs each, and a whole ladder over either half.
bool has_own_ladders(const Rope& rope) {
  return rope.is_vision() && 2 * rope.sections[0] == rope.width && rope.sections[1] == rope.sections[0];
}

void give_own_ladders(const Rope& rope, Spec& spec, Plan& plan) {
  spec.halves.fill(rope.sections[0]);
  spec.values.axes.sections = spec.halves.data();
  spec.values.axes.section_count = spec.halves.size();
  spec.values.axes.ladder = PHASOR_LADDER_OWN;
  plan.axes = 2;
}

bool is_plain(const Rope& rope) { return rope.extension == 0 && rope.attention == 1 && !rope.has_factors; }

// ---- Exact: ggml's formula over the reals ----

/// Frequencies themselves, each the nearest float64 or its neighbour: for ladders and signs that no other scaling has.
std::vector<double> frequencies_of(const Rope& rope, const std::vector<Pair>& pairs, std::vector<double> multipliers) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    multipliers[i] *= std::pow(static_cast<double>(rope.base), -2.0 * static_cast<double>(pairs[i].rung) / rope.width);
  }
  return multipliers;
}

/// Divisors of Phasor's own ladder, which is exact.
std::vector<double> divisors_of(std::vector<double> multipliers) {
  for (double& multiplier : multipliers) multiplier = 1 / multiplier;
  return multipliers;
}

void make_exact(const Rope& rope, const float* factors, Plan& plan) {
  Spec spec(rope, PHASOR_NUMERICS_EXACT);
  if (has_own_ladders(rope) && is_plain(rope)) {
    give_own_ladders(rope, spec, plan);
    spec.scaling.kind = PHASOR_SCALING_LINEAR;
    spec.scaling.factor = 1 / static_cast<double>(rope.scale);
    return spec.make(plan);
  }
  const std::vector<Pair> pairs = pairs_of(rope);
  const std::vector<double> multipliers = multipliers_of(rope, factors);
  give_axes(rope, pairs, spec, plan);
  const bool divides =
      !rope.is_vision() && std::all_of(multipliers.begin(), multipliers.end(), [](double m) { return m > 0 && std::isfinite(1 / m); });
  if (divides) {
    spec.list(PHASOR_SCALING_GIVEN_FACTORS, divisors_of(multipliers), amplitude_of(rope));
  } else {
    spec.list(PHASOR_SCALING_GIVEN_FREQUENCIES, frequencies_of(rope, pairs, multipliers), amplitude_of(rope));
  }
  spec.make(plan);
}

// ---- Numerics profile ggml: its float32 steps ----

/// A factor whose float32 reciprocal is the node's scale, bit for bit; 0 where there is none.
float factor_of(float scale) {
  const float nearest = 1 / scale;
  for (const float factor : {nearest, std::nextafter(nearest, 0.0F), std::nextafter(nearest, HUGE_VALF)}) {
    if (std::isfinite(factor) && 1 / factor == scale) return factor;
  }
  return 0;
}

/// What ggml multiplies cos and sin by, rounded as it does.
float amplitude32(const Rope& rope) {
  const auto log = static_cast<float>(std::log(static_cast<double>(1.0F / rope.scale)));
  return rope.extension == 0 ? rope.attention : rope.attention * (1.0F + 0.1F * log);
}

/// The amplitude that a plan has: cos at position 0.
float made_amplitude(const phasor_rotary& rotary, std::int64_t pairs) {
  std::vector<float> cos(static_cast<std::size_t>(pairs));
  std::vector<float> sin(cos.size());
  std::array<std::int64_t, 4> shape = {1, 1, 1, pairs};
  const phasor_tensor cos_tensor = phasor_tensor_of(cos.data(), PHASOR_F32, shape.data(), 4);
  const phasor_tensor sin_tensor = phasor_tensor_of(sin.data(), PHASOR_F32, shape.data(), 4);
  phasor_cos_sin_call call = {};
  call.size = sizeof call;
  call.cos = &cos_tensor;
  call.sin = &sin_tensor;
  return phasor_rotary_cos_sin(&rotary, &call, nullptr) == PHASOR_OK ? cos[0] : 0;
}

/// The profile takes an attention factor and multiplies it by two numbers that cancel up to a rounding, where the node has the product with
/// one of them: a float32 next to that product gives the node's amplitude.
void make_yarn32(const Rope& rope, Spec& spec, Plan& plan) {
  const float wanted = amplitude32(rope);
  spec.scaling.kind = PHASOR_SCALING_YARN;
  spec.scaling.original_length = rope.original_length;
  spec.scaling.beta_fast = rope.beta_fast;
  spec.scaling.beta_slow = rope.beta_slow;
  spec.scaling.has_attention_factor = 1;
  const float below = std::nextafter(wanted, 0.0F);
  const float above = std::nextafter(wanted, HUGE_VALF);
  for (const float factor : {wanted, below, above, std::nextafter(below, 0.0F), std::nextafter(above, HUGE_VALF)}) {
    spec.scaling.attention_factor = factor;
    spec.make(plan);
    if (!plan.rotary || made_amplitude(*plan.rotary, rope.pairs()) == wanted) return;
  }
  plan.rotary.reset();
  refuse(plan, "has an amplitude that numerics ggml cannot say");
}

void make_ggml(const Rope& rope, const float* factors, Plan& plan) {
  Spec spec(rope, PHASOR_NUMERICS_GGML);
  if (rope.is_vision()) {
    if (!has_own_ladders(rope) || !is_plain(rope)) return refuse(plan, "of vision has sections or scalings that numerics ggml has not");
    give_own_ladders(rope, spec, plan);
  } else {
    give_axes(rope, pairs_of(rope), spec, plan);
  }
  if (rope.scale != 1) spec.scaling.factor = factor_of(rope.scale);
  if (rope.scale != 1 && spec.scaling.factor == 0) return refuse(plan, "has a freq_scale that is no reciprocal of a float32");
  if (rope.extension == 1 && !rope.has_factors) return make_yarn32(rope, spec, plan);
  if (rope.extension != 0) return refuse(plan, "has an ext_factor, or factors with YaRN, that numerics ggml has not");
  if (is_plain(rope)) {
    if (rope.scale != 1) spec.scaling.kind = PHASOR_SCALING_LINEAR;
    return spec.make(plan);
  }
  if (rope.scale != 1) return refuse(plan, "has freq_scale together with factors or attn_factor, which numerics ggml has not");
  std::vector<double> divisors(static_cast<std::size_t>(rope.pairs()), 1);
  if (factors != nullptr) std::copy_n(factors, divisors.size(), divisors.begin());
  spec.list(PHASOR_SCALING_GIVEN_FACTORS, divisors, rope.attention);
  spec.make(plan);
}

}  // namespace

Plan make_plan(const Rope& rope, const float* factors, phasor_numerics numerics) {
  Plan plan;
  if (numerics == PHASOR_NUMERICS_GGML) {
    make_ggml(rope, factors, plan);
  } else {
    make_exact(rope, factors, plan);
  }
  return plan;
}

}  // namespace phasor_ggml
