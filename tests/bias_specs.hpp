// SPDX-License-Identifier: Apache-2.0
// A spec of every bias scheme with awkward numbers, and its value at a query and a key by the literal formula in long double.
#pragma once

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attention/reference/powers.hpp"
#include "phasor/bias.hpp"
#include "tensor.hpp"
#include "wide.hpp"

namespace phasor::test {

inline std::vector<double> numbers(std::size_t count, std::uint64_t seed, double low = -1, double high = 1) {
  Random random(seed);
  std::vector<double> list(count);
  for (double& x : list) x = low + (high - low) * static_cast<double>(random.bits() >> 11) * 0x1p-53;
  return list;
}

inline Mlp mlp_of(std::vector<std::int64_t> widths, Activation activation, std::uint64_t seed) {
  std::size_t count = 0;
  for (std::size_t l = 1; l < widths.size(); ++l) count += static_cast<std::size_t>(widths[l] * (widths[l - 1] + 1));
  return {std::move(widths), numbers(count, seed), activation};
}

struct NamedBias {
  std::string name;
  BiasSpec spec;
};

/// Every scheme, in every form, of 3 or 6 heads.
inline std::vector<NamedBias> every_bias() {
  const Window window = {3, 4};
  return {
      {"alibi", Alibi{.heads = 6}},
      {"alibi_causal", Alibi{.heads = 6, .max_bias = 5, .form = AlibiForm::causal}},
      {"alibi_key_position", Alibi{.heads = 3, .slopes = {0.3, -0.7, 0.011}, .form = AlibiForm::key_position}},
      {"t5", T5Buckets{.heads = 3, .buckets = 10, .max_distance = 20, .table = numbers(30, 1)}},
      {"t5_behind", T5Buckets{.heads = 3, .buckets = 9, .max_distance = 20, .sides = BucketSides::behind, .table = numbers(27, 2)}},
      {"deberta", DebertaBuckets{.heads = 3, .buckets = 8, .max_distance = 20, .table = numbers(48, 3)}},
      {"deberta_microsoft",
       DebertaBuckets{.heads = 3, .buckets = 8, .max_distance = 20, .reading = DebertaReading::microsoft, .table = numbers(48, 4)}},
      {"deberta_swapped",
       DebertaBuckets{.heads = 3, .buckets = 8, .max_distance = 20, .reading = DebertaReading::hf_swapped, .table = numbers(48, 5)}},
      {"deberta_v1", DebertaBuckets{.heads = 3, .buckets = 0, .max_distance = 7, .table = numbers(42, 6)}},
      {"shaw", ShawClip{.heads = 3, .left = 4, .right = 2, .table = numbers(21, 7)}},
      {"kerple_log", Kerple{KerpleKind::logarithmic, numbers(3, 8, 0.1, 2), numbers(3, 9, 0.01, 3)}},
      {"kerple_power", Kerple{KerpleKind::power, numbers(3, 10, 0.1, 2), numbers(3, 11, 0.1, 2)}},
      {"sandwich", Sandwich{.heads = 6, .width = 10, .base = 1000}},
      {"fire", Fire{.mlp = mlp_of({1, 5, 3}, Activation::relu, 12), .c = 0.3, .length = 9.5, .epsilon = 1e-6}},
      {"dynamic", DynamicMlp{.mlp = mlp_of({1, 4, 5, 3}, Activation::silu, 13)}},
      {"dynamic_log", DynamicMlp{.mlp = mlp_of({1, 4, 3}, Activation::silu, 14), .scale = DistanceScale::logarithmic}},
      {"swin", SwinTable{.heads = 3, .window = window, .table = numbers(3 * 35, 15)}},
      {"swinv2", SwinV2{.window = window, .mlp = mlp_of({2, 6, 3}, Activation::relu, 16)}},
      {"swinv2_trained", SwinV2{.window = window, .trained = {6, 2}, .mlp = mlp_of({2, 6, 3}, Activation::silu, 17)}},
  };
}

inline bool has_window(const BiasSpec& spec) { return std::holds_alternative<SwinTable>(spec) || std::holds_alternative<SwinV2>(spec); }

// ---- The formulas, straight from the papers and peers ----

using Wide = long double;
using attend::reference::Ratio;

struct NaiveBias {
  std::int64_t head;
  std::int64_t query;
  std::int64_t key;

  std::int64_t r() const { return query - key; }
  Wide a() const { return std::fabs(static_cast<Wide>(r())); }
  template <class Table>
  Wide entry(const Table& s, std::int64_t rows, std::int64_t row) const {
    return s.table[static_cast<std::size_t>(head * rows + row)];
  }

  Wide slope(const Alibi& s) const {
    if (!s.slopes.empty()) return s.slopes[static_cast<std::size_t>(head)];
    const auto floor_power = static_cast<Wide>(std::bit_floor(static_cast<std::uint64_t>(s.heads)));
    if (static_cast<Wide>(head) < floor_power)
      return wide_pow(2, -static_cast<Wide>(s.max_bias) * (static_cast<Wide>(head) + 1) / floor_power);
    const Wide t = static_cast<Wide>(head) - floor_power;
    return wide_pow(2, -static_cast<Wide>(s.max_bias) * (2 * t + 1) / (2 * floor_power));
  }
  Wide operator()(const Alibi& s) const {
    if (s.form == AlibiForm::key_position) return slope(s) * static_cast<Wide>(key);
    if (s.form == AlibiForm::causal) return r() > 0 ? -slope(s) * a() : 0;
    return -slope(s) * a();
  }

  Wide operator()(const T5Buckets& s) const {
    const bool both = s.sides == BucketSides::both;
    const std::int64_t n = both ? s.buckets / 2 : s.buckets;
    const std::int64_t e = n / 2;
    const std::int64_t d = both ? std::abs(r()) : std::max<std::int64_t>(r(), 0);
    std::int64_t bucket = d;
    if (d >= e) {
      bucket = std::min(n - 1, e + attend::reference::scaled_logarithm(n - e, {d, e}, {s.max_distance, e}, n).floor);
    }
    return entry(s, s.buckets, both && r() < 0 ? bucket + n : bucket);
  }

  Wide operator()(const DebertaBuckets& s) const {
    const bool swapped = s.reading == DebertaReading::hf_swapped;
    const std::int64_t span = s.buckets == 0 ? s.max_distance : s.buckets;
    const std::int64_t mid = swapped ? s.max_distance / 2 : s.buckets / 2;
    const std::int64_t last = swapped ? s.buckets : s.max_distance;
    std::int64_t d = std::abs(r());
    if (s.reading == DebertaReading::microsoft) d = std::min(d, s.max_distance - 1);
    std::int64_t bucket = d;
    if (s.buckets != 0 && d > mid) {
      const auto grown = [&](Ratio step) { return attend::reference::scaled_logarithm(mid - 1, {d, mid}, step, mid + 2 * span); };
      bucket = last - 1 > mid ? mid + grown({last - 1, mid}).ceil : mid - grown({mid, last - 1}).floor;
    }
    return entry(s, 2 * span, std::clamp<std::int64_t>((r() < 0 ? -bucket : bucket) + span, 0, 2 * span - 1));
  }

  Wide operator()(const ShawClip& s) const {
    const std::int64_t offset = key - query;
    const std::int64_t clipped = offset < -s.left ? -s.left : offset > s.right ? s.right : offset;
    return entry(s, s.left + 1 + s.right, clipped + s.left);
  }

  Wide operator()(const Kerple& s) const {
    const Wide r1 = s.r1[static_cast<std::size_t>(head)];
    const Wide r2 = s.r2[static_cast<std::size_t>(head)];
    return s.kind == KerpleKind::power ? -r1 * wide_pow(a(), r2) : -r1 * wide_log1p(r2 * a());
  }

  Wide operator()(const Sandwich& s) const {
    Wide sum = 0;
    for (std::int64_t i = 0; i < s.width / 2; ++i) sum += std::cos(static_cast<Wide>(r()) * reference::frequency(s.base, s.width, i));
    return sum * static_cast<Wide>(s.heads) / (8 * static_cast<Wide>(head + 1));
  }

  static Wide activate(Activation activation, Wide x) {
    return activation == Activation::relu ? std::max<Wide>(x, 0) : x / (1 + wide_exp(-x));
  }
  Wide perceptron(const Mlp& mlp, std::vector<Wide> x) const {
    std::size_t next = 0;
    for (std::size_t l = 1; l < mlp.widths.size(); ++l) {
      std::vector<Wide> y(static_cast<std::size_t>(mlp.widths[l]));
      for (Wide& sum : y) {
        for (const Wide in : x) sum += mlp.parameters[next++] * in;
      }
      for (Wide& sum : y) {
        sum += mlp.parameters[next++];
        if (l + 1 < mlp.widths.size()) sum = activate(mlp.activation, sum);
      }
      x = y;
    }
    return x[static_cast<std::size_t>(head)];
  }
  Wide operator()(const Fire& s) const {
    const auto psi = [&](Wide x) { return wide_log(static_cast<Wide>(s.c) * x + 1); };
    const Wide reach = std::max<Wide>(s.length, static_cast<Wide>(query));
    return perceptron(s.mlp, {psi(a()) / (psi(reach) + static_cast<Wide>(s.epsilon))});
  }
  Wide operator()(const DynamicMlp& s) const {
    const Wide g = s.scale == DistanceScale::linear ? a() : wide_log(1 + a());
    return perceptron(s.mlp, {r() < 0 ? -g : g});
  }

  struct Offsets {
    std::int64_t y;
    std::int64_t x;
  };
  Offsets offsets(const Window& w) const {
    const std::int64_t row = 2 * w.width - 1;
    return {query / row - key / row, query % row - key % row};
  }
  Wide operator()(const SwinTable& s) const {
    const Offsets o = offsets(s.window);
    const std::int64_t rows = (2 * s.window.height - 1) * (2 * s.window.width - 1);
    return entry(s, rows, (o.y + s.window.height - 1) * (2 * s.window.width - 1) + o.x + s.window.width - 1);
  }
  Wide operator()(const SwinV2& s) const {
    const Offsets o = offsets(s.window);
    const Window w = s.trained.height == 0 ? s.window : s.trained;
    const auto g = [](std::int64_t offset, std::int64_t width) {
      const Wide x = 8 * static_cast<Wide>(offset) / static_cast<Wide>(width - 1);
      return (x < 0 ? -1 : 1) * wide_log(std::fabs(x) + 1) / wide_log(2) / 3;
    };
    return 16 / (1 + wide_exp(-perceptron(s.mlp, {g(o.y, w.height), g(o.x, w.width)})));
  }
};

inline Wide naive_bias(const BiasSpec& spec, std::int64_t head, std::int64_t query, std::int64_t key) {
  return std::visit(NaiveBias{head, query, key}, spec);
}

}  // namespace phasor::test
