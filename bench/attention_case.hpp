// SPDX-License-Identifier: Apache-2.0
// One attention to be timed: its tensors, its scheme, its gradients, and the naive float64 check that precedes every timing.
#pragma once

#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "phasor/attention.hpp"
#include "support.hpp"

namespace bench {

enum class Scheme : std::uint8_t { plain, alibi, t5, shaw, transformer_xl, deberta };
constexpr const char* kSchemeNames[] = {"plain", "alibi", "t5", "shaw_kv_64", "transformer_xl", "deberta_256"};
inline const char* name_of(Scheme scheme) { return kSchemeNames[static_cast<std::size_t>(scheme)]; }

struct AttentionCase {
  phasor::DType dtype = phasor::DType::f32;
  bool causal = false;
  std::int64_t width = 64;
  std::int64_t queries = 1024;
  std::int64_t keys = 1024;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  Scheme scheme = Scheme::plain;
  bool backward = false;

  /// Those of the two products of every visible score, forward; 2.5 times as many backward.
  double operations() const {
    const double all = 4.0 * static_cast<double>(queries * keys * heads * width) * (backward ? 2.5 : 1);
    return causal && queries == keys ? all / 2 : all;
  }
};

/// Tensors of a case. Tables are float32 and have gradients with the backward.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& c) : c_(c) {
    inputs = {drawn(c.queries, c.heads, 1), drawn(c.keys, c.key_heads, 2), drawn(c.keys, c.key_heads, 3)};
    outputs = {tensor({1, c.queries, c.heads, c.width}, c.dtype), tensor({1, c.queries, c.heads, 1}, wide())};
    if (c.causal) spec.visibility.mask = phasor::Mask::causal;
    spec.execution.runner = serial();
    add_terms();
    if (!c.backward) return;
    saved = {outputs.out, outputs.lse, drawn(c.queries, c.heads, 4)};
    gradients.q = tensor(inputs.q.shape, c.dtype);
    gradients.k = tensor(inputs.k.shape, c.dtype);
    gradients.v = tensor(inputs.v.shape, c.dtype);
  }

  bool attend() {
    if (!work_) {
      const auto bytes = phasor::attention_workspace(inputs, spec);
      if (!bytes.ok()) return false;
      work_.emplace(*bytes);
    }
    return phasor::attention(inputs, spec, outputs, {static_cast<std::byte*>(work_->data()), static_cast<std::size_t>(work_->bytes())})
        .ok();
  }
  bool attend_backward() {
    if (!backward_work_) {
      const auto bytes = phasor::attention_backward_workspace(inputs, spec, gradients);
      if (!bytes.ok()) return false;
      backward_work_.emplace(*bytes);
    }
    return phasor::attention_backward(inputs, spec, saved, gradients,
                                      {static_cast<std::byte*>(backward_work_->data()), static_cast<std::size_t>(backward_work_->bytes())})
        .ok();
  }

  /// Some rows against float64, score by score.
  bool is_right() const {
    const double limit = c_.dtype == phasor::DType::f64 ? 1e-12 : c_.dtype == phasor::DType::f32 ? 1e-5 : 1e-2;
    for (std::int64_t h = 0; h < c_.heads; ++h) {
      for (std::int64_t i = 0; i < c_.queries; i += std::max<std::int64_t>(1, c_.queries / 3)) {
        const std::vector<double> wanted = naive_row(h, i);
        for (std::int64_t d = 0; d < c_.width; ++d) {
          if (!(std::fabs(value(outputs.out, {i, h, d}) - wanted[static_cast<std::size_t>(d)]) < limit)) return false;
        }
      }
    }
    return true;
  }

  /// The largest difference of gradients, for a check against those in float64.
  double gradient_distance(const AttentionProblem& other) const {
    double most = 0;
    const auto compare = [&](const phasor::TensorView& a, const phasor::TensorView& b) {
      for (std::int64_t n = 0; n < a.shape[1] * a.shape[2] * a.shape[3]; ++n) {
        most = std::max(most, std::fabs(element(a.data, a.dtype, n) - element(b.data, b.dtype, n)));
      }
    };
    compare(gradients.q, other.gradients.q);
    compare(gradients.k, other.gradients.k);
    compare(gradients.v, other.gradients.v);
    return most;
  }

  phasor::AttentionInputs inputs;
  phasor::AttentionSpec spec;
  phasor::AttentionOutputs outputs;
  phasor::AttentionSaved saved;
  phasor::AttentionGradients gradients;

 private:
  phasor::DType wide() const { return c_.dtype == phasor::DType::f64 ? phasor::DType::f64 : phasor::DType::f32; }
  phasor::TensorView tensor(const phasor::Extents& shape, phasor::DType dtype) {
    const std::int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    Buffer& buffer = buffers_.emplace_back(count * phasor::bytes_of(dtype));
    std::memset(buffer.data(), 0, static_cast<std::size_t>(buffer.bytes()));
    return {buffer.data(), dtype, shape, phasor::contiguous_strides(shape)};
  }
  /// Numbers between -1 and 1 that every dtype holds: multiples of 1/64.
  phasor::TensorView draw(const phasor::Extents& shape, phasor::DType dtype, std::uint64_t seed) {
    const phasor::TensorView view = tensor(shape, dtype);
    std::uint64_t state = 88172645463325252ULL * seed;
    for (std::int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      put(view.data, dtype, n, static_cast<int>(state >> 40 & 127) - 63.5);
    }
    return view;
  }
  phasor::TensorView drawn(std::int64_t tokens, std::int64_t heads, std::uint64_t seed) {
    return draw({1, tokens, heads, c_.width}, c_.dtype, seed);
  }
  /// 1/64 of an odd half: at most 8 significant bits.
  static void put(void* data, phasor::DType dtype, std::int64_t n, double value64) {
    const float f = static_cast<float>(value64 / 64);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, 4);
    const std::uint32_t half = (bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13;
    if (dtype == phasor::DType::f64) static_cast<double*>(data)[n] = static_cast<double>(f);
    if (dtype == phasor::DType::f32) static_cast<float*>(data)[n] = f;
    if (dtype == phasor::DType::bf16) static_cast<std::uint16_t*>(data)[n] = static_cast<std::uint16_t>(bits >> 16);
    if (dtype == phasor::DType::f16) static_cast<std::uint16_t*>(data)[n] = static_cast<std::uint16_t>(half);
  }
  static double element(const void* data, phasor::DType dtype, std::int64_t n) {
    if (dtype == phasor::DType::f64) return static_cast<const double*>(data)[n];
    if (dtype == phasor::DType::f32) return static_cast<double>(static_cast<const float*>(data)[n]);
    const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[n];
    if (dtype == phasor::DType::bf16) {
      const std::uint32_t wide_bits = static_cast<std::uint32_t>(bits) << 16;
      float f = 0;
      std::memcpy(&f, &wide_bits, 4);
      return static_cast<double>(f);
    }
    const int exponent = bits >> 10 & 31;
    const double mantissa = (exponent == 0 ? 0.0 : 1024.0) + (bits & 1023);
    return std::ldexp(mantissa, (exponent == 0 ? 1 : exponent) - 25) * ((bits & 0x8000) != 0 ? -1 : 1);
  }
  /// token, head, channel
  static double value(const phasor::ConstTensorView& x, const std::array<std::int64_t, 3>& at) {
    return element(x.data, x.dtype, at[0] * x.strides[1] + at[1] * x.strides[2] + at[2] * x.strides[3]);
  }
  double dot(const phasor::ConstTensorView& x, const std::array<std::int64_t, 2>& row, const phasor::ConstTensorView& y,
             const std::array<std::int64_t, 2>& other) const {
    double sum = 0;
    for (std::int64_t d = 0; d < c_.width; ++d) sum += value(x, {row[0], row[1], d}) * value(y, {other[0], other[1], d});
    return sum;
  }

  // ---- Schemes: a term for the library, and the same as a function of query, key and head for the check ----

  using Naive = std::function<double(std::int64_t h, std::int64_t i, std::int64_t j)>;

  void add_terms() {
    switch (c_.scheme) {
      case Scheme::plain:
        return;
      case Scheme::alibi:
        return add_bias(phasor::Alibi{.heads = c_.heads});
      case Scheme::t5: {
        phasor::T5Buckets spec5{.heads = c_.heads};
        for (std::int64_t n = 0; n < c_.heads * spec5.buckets; ++n) spec5.table.push_back(0.125 * static_cast<double>(n * 37 % 17) - 1);
        return add_bias(spec5);
      }
      case Scheme::shaw:
        add_table(phasor::TableSide::query, phasor::ClipRows{64, 64}, 129, 1);
        return add_table(phasor::TableSide::value, phasor::ClipRows{64, 64}, 129, 1);
      case Scheme::transformer_xl:
        return add_table(phasor::TableSide::query, phasor::ClipRows{c_.keys - 1, c_.keys - 1}, 2 * c_.keys - 1, c_.heads);
      case Scheme::deberta: {
        const auto rows = phasor::Bias::make(phasor::DebertaBuckets{.heads = 1, .buckets = 256, .max_distance = 512});
        add_table(phasor::TableSide::query, *rows, 512, c_.heads);
        return add_table(phasor::TableSide::key, *rows, 512, c_.heads);
      }
    }
  }

  void add_bias(const phasor::BiasSpec& bias_spec) {
    const auto bias = phasor::Bias::make(bias_spec);
    spec.terms.emplace_back(phasor::BiasTerm{.bias = *bias});
    const std::int64_t reach = c_.keys;
    const phasor::TensorView line = tensor({1, c_.heads, 1, 2 * reach + 1}, phasor::DType::f64);
    if (!bias->diagonal(line, -reach).ok()) std::abort();
    terms_.emplace_back([line, reach](std::int64_t h, std::int64_t i, std::int64_t j) {
      return element(line.data, line.dtype, h * line.strides[1] + i - j + reach);
    });
    if (!c_.backward) return;
    sums_.emplace_back(static_cast<std::size_t>(bias->parameter_count()));
    gradients.terms.push_back({.parameters = phasor::view(sums_.back().data(), {1, 1, 1, bias->parameter_count()})});
  }

  static std::int64_t row_of(const phasor::TableRows& rows, std::int64_t r) {
    if (const auto* clip = std::get_if<phasor::ClipRows>(&rows)) return std::clamp(-r, -clip->left, clip->right) + clip->left;
    return std::get<phasor::Bias>(rows).row(r);
  }

  void add_table(phasor::TableSide side, const phasor::TableRows& rows, std::int64_t count, std::int64_t heads) {
    const phasor::TensorView table = draw({1, count, heads, c_.width}, wide(), 5 + spec.terms.size());
    spec.terms.emplace_back(phasor::TableTerm{.side = side, .table = table, .rows = rows});
    if (c_.backward) gradients.terms.push_back({.table = tensor(table.shape, wide())});
    const double scale = 1 / std::sqrt(static_cast<double>(c_.width));
    if (side == phasor::TableSide::value) {
      values_ = [=](std::int64_t h, std::int64_t r, std::int64_t d) { return value(table, {row_of(rows, r), heads == 1 ? 0 : h, d}); };
      return;
    }
    terms_.emplace_back([=, this](std::int64_t h, std::int64_t i, std::int64_t j) {
      const bool by_query = side == phasor::TableSide::query;
      const std::array<std::int64_t, 2> row = {row_of(rows, i - j), heads == 1 ? 0 : h};
      if (by_query) return scale * dot(inputs.q, {i - (c_.keys - c_.queries), h}, table, row);
      return scale * dot(inputs.k, {j, h / (c_.heads / c_.key_heads)}, table, row);
    });
  }

  std::vector<double> naive_row(std::int64_t h, std::int64_t i) const {
    const std::int64_t position = i + c_.keys - c_.queries;
    const std::int64_t key_head = h / (c_.heads / c_.key_heads);
    const std::int64_t end = c_.causal ? position + 1 : c_.keys;
    std::vector<double> scores;
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < end; ++j) {
      double score = dot(inputs.q, {i, h}, inputs.k, {j, key_head}) / std::sqrt(static_cast<double>(c_.width));
      for (const Naive& term : terms_) score += term(h, position, j);
      scores.push_back(score);
      most = std::max(most, score);
    }
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - most);
    std::vector<double> out(static_cast<std::size_t>(c_.width));
    for (std::int64_t j = 0; j < end; ++j) {
      for (std::int64_t d = 0; d < c_.width; ++d) {
        const double v = value(inputs.v, {j, key_head, d}) + (values_ ? values_(h, position - j, d) : 0);
        out[static_cast<std::size_t>(d)] += scores[static_cast<std::size_t>(j)] / sum * v;
      }
    }
    return out;
  }

  AttentionCase c_;
  std::deque<Buffer> buffers_;
  std::deque<std::vector<double>> sums_;
  std::vector<Naive> terms_;
  Naive values_;
  std::optional<Buffer> work_;
  std::optional<Buffer> backward_work_;
};

}  // namespace bench
