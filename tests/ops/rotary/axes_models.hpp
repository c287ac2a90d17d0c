// SPDX-License-Identifier: Apache-2.0
// The multi-axis rotations of published models, twice: as a spec, and as a list of what each channel does, straight from their formulas.
// The second shares no code with src/.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensor.hpp"
#include "wide.hpp"

namespace phasor::test {

/// What turns one channel of a pair: radians per position along each axis.
using Direction4 = std::array<long double, 4>;

/// A pair's two channels, and what turns each. They differ in per-channel frequencies only.
struct NaivePair {
  std::int64_t x;
  std::int64_t y;
  Direction4 turns[2];
};

struct Model {
  std::string name;
  RotarySpec spec;
  std::int64_t axes;
  std::vector<NaivePair> pairs;
};

inline Direction4 along(std::size_t axis, long double frequency) {
  Direction4 direction{};
  direction[axis] = frequency;
  return direction;
}

/// base^(-2 i / width), the published formula.
inline long double ladder(long double base, std::int64_t width, std::int64_t i) {
  return wide_pow(base, -2.0L * static_cast<long double>(i) / static_cast<long double>(width));
}

inline NaivePair half_pair(std::int64_t width, std::int64_t i, const Direction4& turns) { return {i, i + width / 2, {turns, turns}}; }
inline NaivePair neighbours(std::int64_t i, const Direction4& turns) { return {2 * i, 2 * i + 1, {turns, turns}}; }

inline Model qwen2_vl() {
  Model m{"qwen2_vl", {.head_dim = 128, .base = 1e6, .axes = {.sections = {16, 24, 24}}}, 3, {}};
  for (int i = 0; i < 64; ++i) m.pairs.push_back(half_pair(128, i, along(i < 16 ? 0 : i < 40 ? 1 : 2, ladder(1e6, 128, i))));
  return m;
}

/// Height at 1, 4, 7, ..., width at 2, 5, 8, ..., each as often as its section; time has the rest.
inline std::vector<NaivePair> qwen3_pairs(long double base, std::int64_t width, std::array<int, 3> sections) {
  std::vector<std::size_t> axis(static_cast<std::size_t>(width / 2), 0);
  for (std::size_t a : {1, 2}) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(sections[a]); ++i) axis[a + 3 * i] = a;
  }
  std::vector<NaivePair> pairs;
  for (int i = 0; i < width / 2; ++i)
    pairs.push_back(half_pair(width, i, along(axis[static_cast<std::size_t>(i)], ladder(base, width, i))));
  return pairs;
}

inline Model qwen3_vl() {
  return {"qwen3_vl",
          {.head_dim = 128, .base = 5e6, .axes = {.sections = {24, 20, 20}, .order = AxisOrder::interleaved}},
          3,
          qwen3_pairs(5e6L, 128, {24, 20, 20})};
}

inline Model qwen3_5() {
  return {"qwen3_5",
          {.head_dim = 96, .rotary_width = 64, .base = 1e7, .axes = {.sections = {11, 11, 10}, .order = AxisOrder::interleaved}},
          3,
          qwen3_pairs(1e7L, 64, {11, 11, 10})};
}

inline Model glm4v() {
  Model m{"glm4v",
          {.head_dim = 128, .rotary_width = 64, .base = 1e4, .pairing = Pairing::interleaved, .axes = {.sections = {8, 12, 12}}},
          3,
          {}};
  for (int i = 0; i < 32; ++i) m.pairs.push_back(neighbours(i, along(i < 8 ? 0 : i < 20 ? 1 : 2, ladder(1e4, 64, i))));
  return m;
}

/// Position rows are t, h, w; pairs 0 to 43 are h, w, h, w, ...; the last 20 are t.
inline Model ernie4_5_vl() {
  Model m{
      "ernie4_5_vl",
      {.head_dim = 128, .base = 5e5, .pairing = Pairing::interleaved, .axes = {.sections = {20, 22, 22}, .order = AxisOrder::alternating}},
      3,
      {}};
  for (int i = 0; i < 64; ++i) m.pairs.push_back(neighbours(i, along(i >= 44 ? 0 : i % 2 == 0 ? 1 : 2, ladder(5e5, 128, i))));
  return m;
}

inline Model hunyuan_vl() {
  Model m{
      "hunyuan_vl", {.head_dim = 128, .base = 1e4, .scaling = NtkScaling{.alpha = 1000}, .axes = {.sections = {16, 16, 16, 16}}}, 4, {}};
  const long double base = 1e4L * wide_pow(1000.0L, 128.0L / 126.0L);
  for (int i = 0; i < 64; ++i) m.pairs.push_back(half_pair(128, i, along(static_cast<std::size_t>(i / 16), ladder(base, 128, i))));
  return m;
}

inline Model qwen_vision() {
  Model m{"qwen_vision", {.head_dim = 80, .base = 1e4, .axes = {.sections = {20, 20}, .ladder = AxisLadder::own}}, 2, {}};
  for (int i = 0; i < 40; ++i) m.pairs.push_back(half_pair(80, i, along(i < 20 ? 0 : 1, ladder(1e4, 40, i % 20))));
  return m;
}

/// Even frequencies are h's, odd ones w's.
inline Model pixtral() {
  Model m{"pixtral", {.head_dim = 64, .base = 1e4, .axes = {.sections = {16, 16}, .ladder = AxisLadder::dealt}}, 2, {}};
  for (int i = 0; i < 32; ++i) {
    m.pairs.push_back(half_pair(64, i, i < 16 ? along(0, ladder(1e4, 64, 2 * i)) : along(1, ladder(1e4, 64, 2 * (i - 16) + 1))));
  }
  return m;
}

inline Model axial_neighbours(const char* name, std::int64_t width) {
  const std::int64_t section = width / 4;
  Model m{name,
          {.head_dim = width,
           .base = 1e4,
           .pairing = Pairing::interleaved,
           .axes = {.sections = {section, section}, .ladder = AxisLadder::own}},
          2,
          {}};
  for (int i = 0; i < 2 * section; ++i) m.pairs.push_back(neighbours(i, along(i < section ? 0 : 1, ladder(1e4, width / 2, i % section))));
  return m;
}

/// Three parts of 20 channels, t, h, w; channel c of a part turns by frequency c mod 10, so neighbours differ.
inline Model vjepa2() {
  Model m{"vjepa2",
          {.head_dim = 64,
           .rotary_width = 60,
           .base = 1e4,
           .pairing = Pairing::interleaved,
           .axes = {.sections = {10, 10, 10}, .ladder = AxisLadder::own},
           .segments = 3,
           .lanes = Lanes::per_channel_frequencies},
          3,
          {}};
  for (int i = 0; i < 30; ++i) {
    const auto part = static_cast<std::size_t>(i / 10);
    const int c = 2 * (i % 10);
    NaivePair pair = {2 * i, 2 * i + 1, {}};
    for (const int lane : {0, 1}) pair.turns[lane] = along(part, ladder(1e4, 20, (c + lane) % 10));
    m.pairs.push_back(pair);
  }
  return m;
}

inline Model dinov3() {
  Model m{"dinov3",
          {.head_dim = 64, .base = 100, .axes = {.sections = {16, 16}, .ladder = AxisLadder::own}, .unit = FrequencyUnit::turns},
          2,
          {}};
  const long double turn = 2 * std::acos(-1.0L);
  for (int i = 0; i < 32; ++i) m.pairs.push_back(half_pair(64, i, along(i < 16 ? 0 : 1, turn * wide_pow(100.0L, -(i % 16) / 16.0L))));
  return m;
}

/// Two parts, each paired (i, i + 16) within itself.
inline Model gemma4_vision() {
  Model m{"gemma4_vision", {.head_dim = 64, .base = 100, .axes = {.sections = {16, 16}, .ladder = AxisLadder::own}, .segments = 2}, 2, {}};
  for (int i = 0; i < 32; ++i) {
    const std::int64_t x = i < 16 ? i : 32 + (i - 16);
    const Direction4 turns = along(i < 16 ? 0 : 1, ladder(100, 32, i % 16));
    m.pairs.push_back({x, x + 16, {turns, turns}});
  }
  return m;
}

/// The models that tools/record/record_axes.py ran.
inline std::vector<Model> recorded_models() {
  return {qwen2_vl(),
          qwen3_vl(),
          qwen3_5(),
          glm4v(),
          ernie4_5_vl(),
          hunyuan_vl(),
          qwen_vision(),
          pixtral(),
          axial_neighbours("llama4_vision", 88),
          axial_neighbours("sam2", 64),
          vjepa2(),
          dinov3(),
          gemma4_vision()};
}

// ---- The rotation, by the list ----

/// cos and sin of a lane at a position, rounded once to V.
template <class V>
std::pair<V, V> naive_cos_sin(const Direction4& turns, const std::array<long double, 4>& at, long double amplitude = 1) {
  long double angle = 0;
  for (std::size_t a = 0; a < 4; ++a) angle += turns[a] * at[a];
  return {static_cast<V>(amplitude * std::cos(angle)), static_cast<V>(amplitude * std::sin(angle))};
}

/// One head. transpose: the adjoint of the 2 by 2 matrix of each pair.
template <class T>
std::vector<T> naive_head(const std::vector<T>& in, const Model& model, const std::array<long double, 4>& at, bool transpose) {
  using E = Element<T>;
  using V = typename E::Value;
  std::vector<T> out = in;
  const auto offset = static_cast<std::size_t>(model.spec.rotary_offset);
  for (const NaivePair& pair : model.pairs) {
    const auto [c0, s0] = naive_cos_sin<V>(pair.turns[0], at);
    const auto [c1, s1] = naive_cos_sin<V>(pair.turns[1], at);
    const std::size_t x = offset + static_cast<std::size_t>(pair.x);
    const std::size_t y = offset + static_cast<std::size_t>(pair.y);
    if (c0 == 1 && c1 == 1 && s0 == 0 && s1 == 0) continue;
    out[x] = E::narrow(reference::first_of<V>(E::widen(in[x]), E::widen(in[y]), c0, transpose ? -s1 : s0));
    out[y] = E::narrow(reference::second_of<V>(E::widen(in[x]), E::widen(in[y]), c1, transpose ? -s0 : s1));
  }
  return out;
}

}  // namespace phasor::test
