// SPDX-License-Identifier: Apache-2.0
// The gradients of prepare_attention written naively, channel by channel, as docs/design/prepare.md says it; shares no code with src/. In
// float every rounding and addition is the documented one, so that bits can be compared; in double there is no rounding, and `loss` is what
// finite differences are taken of.
#pragma once

#include <optional>

#include "prepare/naive.hpp"

namespace phasor::reference {

template <class Real>
class NaiveBackward {
 public:
  using Values = std::vector<Real>;

  NaiveBackward(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients, const PrepareSpec& spec)
      : spec_(spec), factors_(inputs.query_factors), to_factors_(gradients.by_query_factors) {
    add('q', inputs.q, gradients.q, spec.q_norm);
    add('k', inputs.k, gradients.k, spec.k_norm);
    add('v', inputs.v, gradients.v, spec.v_norm);
    turn_.emplace(rotation, batch_, tokens_, (inputs.k.data != nullptr ? inputs.k : sides[0].in).shape[3], dtype_);
  }

  /// q, k or v: everything as (B, T, H, D), and of its weight as (1 or H, width).
  struct Side {
    char name;
    ConstTensorView in;
    PrepareGradient to;
    HeadNorm norm;
    Values x, by_output, by_input, weight;
    std::vector<double> by_weight;  // before the last rounding

    std::size_t heads() const { return static_cast<std::size_t>(in.shape[2]); }
    std::size_t dim() const { return static_cast<std::size_t>(in.shape[3]); }
    std::size_t width() const { return norm.width == 0 ? dim() : static_cast<std::size_t>(norm.width); }
    bool norms() const { return norm.kind != HeadNorm::Kind::none; }
    std::size_t weight_row(std::size_t head) const { return norm.weight.shape[2] == 1 ? 0 : head * width(); }
  };
  std::vector<Side> sides;

  /// The sum of all results times the gradients by them.
  Real loss() const {
    Real sum = 0;
    for (const Side& side : sides) {
      for (std::size_t row = 0; row < rows_; ++row) {
        const std::vector<Values> out = forward(side, row);
        for (std::size_t h = 0; h < side.heads(); ++h) {
          for (std::size_t c = 0; c < side.dim(); ++c) sum += out[h][c] * side.by_output[at(side, row, h) + c];
        }
      }
    }
    return sum;
  }

  void run() {
    for (Side& side : sides) {
      side.by_input.assign(side.x.size(), Real{0});
      std::vector<Values> terms;  // of each token: (heads, width)
      for (std::size_t row = 0; row < rows_; ++row) terms.push_back(backward(side, row));
      if (side.to.by_weight.data != nullptr) sum_weights(side, terms);
      if (side.name != 'q' || to_factors_.data == nullptr) continue;
      for (std::size_t row = 0; row < rows_; ++row) by_factors.push_back(by_factor(side, row));
    }
  }

  std::vector<double> by_factors;  // of each token, before the last rounding

  /// Into the memory of the call.
  void write() const {
    if (to_factors_.data != nullptr) {
      each_element(to_factors_, [&](std::int64_t index, std::size_t i) {
        static_cast<float*>(to_factors_.data)[index] = static_cast<float>(by_factors[i]);
      });
    }
    for (const Side& side : sides) {
      const TensorView& out = side.to.by_input;
      const Storage storage = out.dtype == DType::f32 ? Storage::f32 : out.dtype == DType::f16 ? Storage::f16 : Storage::bf16;
      each_element(
          out, [&](std::int64_t index, std::size_t i) { write_number(storage, out.data, index, static_cast<float>(side.by_input[i])); });
      const TensorView& sums = side.to.by_weight;
      if (sums.data == nullptr) continue;
      each_element(
          sums, [&](std::int64_t index, std::size_t i) { static_cast<float*>(sums.data)[index] = static_cast<float>(side.by_weight[i]); });
    }
  }

 private:
  static std::size_t at(const Side& side, std::size_t row, std::size_t head) { return (row * side.heads() + head) * side.dim(); }

  template <class View, class Body>
  static void each_element(const View& v, const Body& body) {
    std::size_t i = 0;
    for (std::int64_t b = 0; b < v.shape[0]; ++b) {
      for (std::int64_t t = 0; t < v.shape[1]; ++t) {
        for (std::int64_t h = 0; h < v.shape[2]; ++h) {
          for (std::int64_t c = 0; c < v.shape[3]; ++c, ++i) body(b * v.strides[0] + t * v.strides[1] + h * v.strides[2] + c, i);
        }
      }
    }
  }
  static Values numbers_of(const ConstTensorView& v) {
    Values numbers;
    each_element(v, [&](std::int64_t index, std::size_t) { numbers.push_back(static_cast<Real>(read_number(v.dtype, v.data, index))); });
    return numbers;
  }

  void add(char name, const ConstTensorView& in, const PrepareGradient& to, const HeadNorm& norm) {
    if (in.data == nullptr) return;
    dtype_ = in.dtype;
    batch_ = in.shape[0];
    tokens_ = in.shape[1];
    rows_ = static_cast<std::size_t>(batch_ * tokens_);
    Side side = {name, in, to, norm, numbers_of(in), numbers_of(to.by_output), {}, {}, {}};
    if (norm.weight.data != nullptr) side.weight = numbers_of(norm.weight);
    sides.push_back(side);
  }
  /// To the tensor's dtype; in double nothing is rounded.
  Real to_dtype(Real x) const {
    if constexpr (std::is_same_v<Real, float>) return round_to(dtype_, x);
    return x;
  }
  Real round(Real x) const { return spec_.between == PrepareSpec::Between::kept ? x : to_dtype(x); }

  bool turns(const Side& side) const { return side.name != 'v' && turn_->turns(); }
  bool scales(const Side& side) const { return side.name == 'q' && (factors_.data != nullptr || spec_.query_scale != 1); }
  bool norm_is_last(const Side& side) const { return spec_.order == PrepareSpec::Order::rotation_first && turns(side); }

  Real query_factor(std::size_t row) const {
    const auto b = static_cast<std::int64_t>(row) / tokens_;
    const auto t = static_cast<std::int64_t>(row) % tokens_;
    const Real own =
        factors_.data == nullptr ? 1 : static_cast<const float*>(factors_.data)[b * factors_.strides[0] + t * factors_.strides[1]];
    return factors_.data == nullptr ? static_cast<Real>(spec_.query_scale) : own * static_cast<Real>(spec_.query_scale);
  }

  /// The rotation of a head, or its transpose.
  Values turned(const Side& side, std::size_t row, std::size_t head, const Values& from, bool transposed) const {
    const std::int64_t offset = side.name == 'q' ? spec_.q_rotary_offset.value_or(turn_->offset()) : turn_->offset();
    const auto i = static_cast<std::int64_t>(row);
    return turn_->turned(from, {i / tokens_, i % tokens_, static_cast<std::int64_t>(head), offset, transposed},
                         [&](Real value) { return round(value); });
  }

  /// 32 sums of every 32nd number, then the upper half on the lower one until one is left.
  template <class T>
  static T sum_in_order(const std::vector<T>& numbers) {
    std::vector<T> sums(32);
    for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % 32] = sums[i % 32] + numbers[i];
    for (std::size_t half = 16; half >= 1; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) sums[j] = sums[j] + sums[j + half];
    }
    return sums[0];
  }

  static Values products(const Values& a, const Values& b) {
    Values all;
    for (std::size_t i = 0; i < a.size(); ++i) all.push_back(a[i] * b[i]);
    return all;
  }
  Real factor_of(const HeadNorm& norm, const Values& summed) const {
    const Real sum = sum_in_order(products(summed, summed));
    const Real under = norm.kind == HeadNorm::Kind::rms ? sum / static_cast<Real>(summed.size()) : sum;
    return Real{1} / std::sqrt(under + static_cast<Real>(norm.epsilon));
  }
  Real weight_at(const Side& side, std::size_t head, std::size_t c) const {
    const Real w = side.weight[side.weight_row(head) + c];
    return side.norm.weight_as == HeadNorm::Weight::one_plus ? Real{1} + w : w;
  }

  /// The heads of a token as its norm finds them.
  std::vector<Values> before_norm(const Side& side, std::size_t row) const {
    std::vector<Values> heads;
    for (std::size_t h = 0; h < side.heads(); ++h) {
      const auto first = side.x.begin() + static_cast<std::ptrdiff_t>(at(side, row, h));
      heads.emplace_back(first, first + static_cast<std::ptrdiff_t>(side.dim()));
      if (norm_is_last(side)) heads.back() = turned(side, row, h, heads.back(), false);
    }
    return heads;
  }
  /// The channels that one norm sums.
  static Values normed_channels(const Side& side, const std::vector<Values>& heads, std::size_t head) {
    Values all;
    for (std::size_t h = 0; h < heads.size(); ++h) {
      if (h != head && side.norm.over == HeadNorm::Over::head) continue;
      all.insert(all.end(), heads[h].begin(), heads[h].begin() + static_cast<std::ptrdiff_t>(side.width()));
    }
    return all;
  }

  std::vector<Values> forward(const Side& side, std::size_t row) const {
    const std::vector<Values> before = before_norm(side, row);
    std::vector<Values> heads = before;
    for (std::size_t h = 0; h < heads.size(); ++h) {
      if (side.norms()) {
        const Real factor = factor_of(side.norm, normed_channels(side, before, h));
        for (std::size_t c = 0; c < side.width(); ++c) {
          heads[h][c] = heads[h][c] * factor * (side.weight.empty() ? Real{1} : weight_at(side, h, c));
        }
      }
      if (turns(side) && !norm_is_last(side)) heads[h] = turned(side, row, h, heads[h], false);
      if (scales(side)) {
        for (Real& value : heads[h]) value *= query_factor(row);
      }
    }
    return heads;
  }

  /// A head before its factor, every step rounded as the step ahead rounds it.
  Values before_factor(const Side& side, std::size_t row, std::size_t h) const {
    const std::vector<Values> before = before_norm(side, row);
    Values head = before[h];
    const Real factor = side.norms() ? factor_of(side.norm, normed_channels(side, before, h)) : Real{1};
    for (std::size_t c = 0; side.norms() && c < side.width(); ++c) {
      head[c] = head[c] * factor;
      if (side.norm.cast == HeadNorm::Cast::before_weight) head[c] = to_dtype(head[c]);
      if (!side.weight.empty()) head[c] = head[c] * weight_at(side, h, c);
      head[c] = round(head[c]);
    }
    return turns(side) && !norm_is_last(side) ? turned(side, row, h, head, false) : head;
  }
  /// Heads in their order, of each 32 sums of every 32nd product.
  double by_factor(const Side& side, std::size_t row) const {
    double sum = 0;
    for (std::size_t h = 0; h < side.heads(); ++h) {
      const Values head = before_factor(side, row, h);
      std::vector<double> products;
      for (std::size_t c = 0; c < side.dim(); ++c) products.push_back(double{head[c]} * double{side.by_output[at(side, row, h) + c]});
      sum += sum_in_order(products);
    }
    return sum * double{spec_.query_scale};
  }

  /// Writes the gradients of a token; returns what it adds to those of the weights.
  Values backward(Side& side, std::size_t row) const {
    std::vector<Values> gradient;
    for (std::size_t h = 0; h < side.heads(); ++h) {
      const auto first = side.by_output.begin() + static_cast<std::ptrdiff_t>(at(side, row, h));
      gradient.emplace_back(first, first + static_cast<std::ptrdiff_t>(side.dim()));
      if (scales(side)) {
        for (Real& value : gradient[h]) value = round(value * query_factor(row));
      }
      if (turns(side) && !(side.norms() && norm_is_last(side))) gradient[h] = turned(side, row, h, gradient[h], true);
    }
    Values terms;
    if (side.norms()) terms = norm_backward(side, row, gradient);
    for (std::size_t h = 0; h < side.heads(); ++h) {
      if (turns(side) && side.norms() && norm_is_last(side)) gradient[h] = turned(side, row, h, gradient[h], true);
      for (std::size_t c = 0; c < side.dim(); ++c) side.by_input[at(side, row, h) + c] = gradient[h][c];
    }
    return terms;
  }

  Values norm_backward(const Side& side, std::size_t row, std::vector<Values>& gradient) const {
    std::vector<Values> normed = before_norm(side, row);
    Values factors;
    for (std::size_t h = 0; h < normed.size(); ++h) factors.push_back(factor_of(side.norm, normed_channels(side, normed, h)));
    Values terms;
    for (std::size_t h = 0; h < normed.size(); ++h) {
      for (std::size_t c = 0; c < side.width(); ++c) {
        normed[h][c] = normed[h][c] * factors[h];
        // The weight multiplied what the norm gave: rounded before, where the model casts first. Its terms are formed later, in double.
        terms.push_back(gradient[h][c]);
        terms.push_back(side.norm.cast == HeadNorm::Cast::before_weight ? to_dtype(normed[h][c]) : normed[h][c]);
        if (!side.weight.empty()) gradient[h][c] = gradient[h][c] * weight_at(side, h, c);
      }
    }
    const std::vector<Values> weighed = gradient;
    for (std::size_t h = 0; h < normed.size(); ++h) {
      const Values summed = products(normed_channels(side, normed, h), normed_channels(side, weighed, h));
      const Real sum = sum_in_order(summed);
      const Real along = side.norm.kind == HeadNorm::Kind::rms ? sum / static_cast<Real>(summed.size()) : sum;
      for (std::size_t c = 0; c < side.width(); ++c) {
        const Real lost = normed[h][c] * along;
        gradient[h][c] = round((weighed[h][c] - lost) * factors[h]);
      }
    }
    return terms;
  }

  /// Tokens in runs of 64 for every head, then run after run, and head after head where heads share their weights.
  void sum_weights(Side& side, const std::vector<Values>& terms) const {
    const bool shared = side.norm.weight.shape[2] == 1;
    const std::size_t width = side.width();
    for (std::size_t own = 0; own < (shared ? 1 : side.heads()); ++own) {
      for (std::size_t c = 0; c < width; ++c) {
        std::vector<double> entries;
        for (std::size_t run = 0; run < rows_; run += 64) {
          for (std::size_t h = shared ? 0 : own; h < (shared ? side.heads() : own + 1); ++h) {
            double sum = 0;
            for (std::size_t row = run; row < std::min(run + 64, rows_); ++row) {
              const Real* const term = &terms[row][2 * (h * width + c)];
              sum += double{term[0]} * double{term[1]};
            }
            entries.push_back(sum);
          }
        }
        side.by_weight.push_back(sum_in_order(entries));
      }
    }
  }

  const PrepareSpec& spec_;
  const ConstTensorView& factors_;
  const TensorView& to_factors_;
  DType dtype_ = DType::f32;
  std::int64_t batch_ = 0;
  std::int64_t tokens_ = 0;
  std::size_t rows_ = 0;
  std::optional<NaiveRotation> turn_;
};

}  // namespace phasor::reference
