// SPDX-License-Identifier: Apache-2.0
// prepare_attention written naively, channel by channel, as its header and docs/design/prepare.md say it. Shares no code with src/: numbers
// of 16 and 8 bits by tables, sums in the written order, places and strides by their definitions.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "phasor/prepare.hpp"
#include "prepare/float8_reference.hpp"
#include "prepare/naive_rotation.hpp"

namespace phasor::reference {

inline void write_number(Storage storage, void* data, std::int64_t index, float x) {
  static const Values8 e4m3 = values_of_e4m3();
  static const Values8 e5m2 = values_of_e5m2();
  if (storage == Storage::f32) static_cast<float*>(data)[index] = x;
  if (storage == Storage::f16) static_cast<Float16*>(data)[index] = Element<Float16>::narrow(x);
  if (storage == Storage::bf16) static_cast<BFloat16*>(data)[index] = Element<BFloat16>::narrow(x);
  if (storage == Storage::f8_e4m3) static_cast<std::uint8_t*>(data)[index] = nearest_of(e4m3, x);
  if (storage == Storage::f8_e5m2) static_cast<std::uint8_t*>(data)[index] = nearest_of(e5m2, x);
  if (storage == Storage::i8) static_cast<std::uint8_t*>(data)[index] = nearest_i8(x);
}
/// 32 sums of every 32nd channel, then the upper half on the lower one until one is left.
inline float sum_of_squares(const std::vector<float>& x) {
  std::vector<float> sums(32);
  for (std::size_t c = 0; c < x.size(); ++c) {
    const float square = x[c] * x[c];
    sums[c % 32] = sums[c % 32] + square;
  }
  for (std::size_t half = 16; half >= 1; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] = sums[j] + sums[j + half];
  }
  return sums[0];
}

class NaivePrepare {
 public:
  NaivePrepare(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec)
      : inputs_(inputs),
        outputs_(outputs),
        spec_(spec),
        first_(inputs.q.data   ? inputs.q
               : inputs.k.data ? inputs.k
                               : inputs.v),
        turn_(rotation, first_.shape[0], first_.shape[1], (inputs.k.data ? inputs.k : first_).shape[3], first_.dtype) {}

  void run() {
    for (std::int64_t b = 0; b < first_.shape[0]; ++b) {
      for (std::int64_t t = 0; t < first_.shape[1]; ++t) {
        if (inputs_.q.data != nullptr) make_heads({'q', inputs_.q, spec_.q_norm, outputs_.q}, b, t);
        if (inputs_.k.data != nullptr) make_heads({'k', inputs_.k, spec_.k_norm, outputs_.k}, b, t);
        if (inputs_.v.data != nullptr) make_heads({'v', inputs_.v, spec_.v_norm, outputs_.v}, b, t);
      }
    }
  }

 private:
  std::vector<float> head_of(const ConstTensorView& in, std::int64_t b, std::int64_t t, std::int64_t h) const {
    std::vector<float> x;
    for (std::int64_t c = 0; c < in.shape[3]; ++c) {
      x.push_back(read_number(in.dtype, in.data, b * in.strides[0] + t * in.strides[1] + h * in.strides[2] + c));
    }
    return x;
  }

  float round(float x) const { return spec_.between == PrepareSpec::Between::kept ? x : round_to(first_.dtype, x); }

  void norm(const HeadNorm& norm, std::vector<float>& x, const std::vector<float>& summed, std::int64_t head) const {
    const float sum = sum_of_squares(summed);
    const float under = norm.kind == HeadNorm::Kind::rms ? sum / static_cast<float>(summed.size()) : sum;
    const float factor = 1.0F / std::sqrt(under + norm.epsilon);
    const std::size_t width = norm.width == 0 ? x.size() : static_cast<std::size_t>(norm.width);
    for (std::size_t c = 0; c < width; ++c) {
      float y = x[c] * factor;
      if (norm.cast == HeadNorm::Cast::before_weight) y = round_to(first_.dtype, y);
      if (norm.weight.data != nullptr) {
        const std::int64_t row = norm.weight.shape[2] == 1 ? 0 : head;
        float w = read_number(norm.weight.dtype, norm.weight.data, row * norm.weight.strides[2] + static_cast<std::int64_t>(c));
        if (norm.weight_as == HeadNorm::Weight::one_plus) w = 1.0F + w;
        y = y * w;
      }
      x[c] = round(y);
    }
  }

  std::vector<float> turned(char name, const std::vector<float>& x, std::int64_t b, std::int64_t t, std::int64_t head) const {
    const std::int64_t offset = name == 'q' ? spec_.q_rotary_offset.value_or(turn_.offset()) : turn_.offset();
    return turn_.turned(x, {b, t, head, offset}, [&](float value) { return round(value); });
  }

  struct Heads {
    char name;
    const ConstTensorView& in;
    const HeadNorm& with;
    const CacheParts& out;
  };
  void make_heads(const Heads& heads, std::int64_t b, std::int64_t t) const {
    const auto& [name, in, with, out] = heads;
    std::int64_t block = b;
    std::int64_t token = t;
    if (name != 'q' && !place(out.parts[0], b, t, block, token)) return;
    std::vector<float> all;
    const std::int64_t width = with.width == 0 ? in.shape[3] : with.width;
    for (std::int64_t h = 0; h < in.shape[2]; ++h) {
      const std::vector<float> x = head_of(in, b, t, h);
      all.insert(all.end(), x.begin(), x.begin() + width);
    }
    for (std::int64_t h = 0; h < in.shape[2]; ++h) {
      std::vector<float> x = head_of(in, b, t, h);
      const bool turns = name != 'v' && turn_.turns();
      const auto apply = [&, &with = with] {
        if (with.kind == HeadNorm::Kind::none) return;
        const std::vector<float> own(x.begin(), x.begin() + width);
        norm(with, x, with.over == HeadNorm::Over::head ? own : all, h);
      };
      if (spec_.order == PrepareSpec::Order::norm_first) apply();
      if (turns) x = turned(name, x, b, t, h);
      if (spec_.order == PrepareSpec::Order::rotation_first) apply();
      if (name == 'q') scale_query(x, b, t);
      for (int p = 0; p < out.count; ++p) store(out.parts[static_cast<std::size_t>(p)], x, block, token, h);
    }
  }

  void scale_query(std::vector<float>& x, std::int64_t b, std::int64_t t) const {
    const ConstTensorView& factors = inputs_.query_factors;
    if (factors.data == nullptr && spec_.query_scale == 1) return;
    float factor = spec_.query_scale;
    if (factors.data != nullptr) {
      factor = static_cast<const float*>(factors.data)[b * factors.strides[0] + t * factors.strides[1]] * spec_.query_scale;
    }
    for (float& value : x) value = round(value * factor);
  }

  /// False where the token is skipped.
  bool place(const CacheView& cache, std::int64_t b, std::int64_t t, std::int64_t& block, std::int64_t& token) const {
    const TokenPlaces& places = outputs_.places;
    const std::int64_t size = cache.shape[static_cast<std::size_t>(CacheAxis::token)];
    const std::int64_t i = b * first_.shape[1] + t;
    if (places.kind == TokenPlaces::Kind::in_order) {
      token = t + (places.starts.data != nullptr ? integer_of(places.starts, b) : 0);
      return true;
    }
    const IntegerList& list = places.kind == TokenPlaces::Kind::slots ? places.slots : places.places;
    if (i >= list.size || integer_of(list, i) < 0) return false;
    const std::int64_t at = integer_of(list, i);
    token = at % size;
    block = at / size;
    if (places.kind == TokenPlaces::Kind::slots) return true;
    const std::int64_t request = places.requests.data != nullptr ? integer_of(places.requests, i) : b;
    const std::int64_t first = places.indptr.data != nullptr ? integer_of(places.indptr, request) : request * places.pages_per_request;
    block = integer_of(places.indices, first + at / size);
    return true;
  }

  static void store(const CacheView& cache, const std::vector<float>& x, std::int64_t block, std::int64_t token, std::int64_t head) {
    const std::int64_t inner = cache.shape[5];
    const std::int64_t channels = cache.shape[4] * inner;
    const CacheScales& scales = cache.scales;
    const std::int64_t group = scales.group == 0 ? channels : scales.group;
    for (std::int64_t c = 0; c < channels; ++c) {
      float value = x[static_cast<std::size_t>(cache.first_channel + c)];
      if (scales.kind == CacheScales::Kind::given) {
        const float scale = scales.data == nullptr ? scales.value : static_cast<const float*>(scales.data)[head * scales.strides[2]];
        value = scales.use == CacheScales::Use::divide ? value / scale : value * scale;
      }
      if (scales.kind == CacheScales::Kind::made) {
        const float scale = make_scale(cache, x, c / group * group, std::min(channels, (c / group + 1) * group));
        const std::int64_t at =
            block * scales.strides[0] + token * scales.strides[1] + head * scales.strides[2] + c / group * scales.strides[3];
        if (scales.encoding == CacheScales::Encoding::f32) static_cast<float*>(scales.data)[at] = scale;
        if (scales.encoding == CacheScales::Encoding::ue8m0) {
          static_cast<std::uint8_t*>(scales.data)[at] =
              std::isnan(scale) ? std::uint8_t{255} : static_cast<std::uint8_t>(std::lround(std::log2(scale)) + 127);
        }
        value = scales.use == CacheScales::Use::divide ? value / scale : value * (1.0F / scale);
      }
      const std::int64_t at = cache.layer * cache.strides[0] + block * cache.strides[1] + token * cache.strides[2] +
                              head * cache.strides[3] + c / inner * cache.strides[4] + c % inner * cache.strides[5];
      write_number(cache.storage, cache.data, at, value);
    }
  }

  static float make_scale(const CacheView& cache, const std::vector<float>& x, std::int64_t first, std::int64_t end) {
    float most = 0;
    for (std::int64_t c = first; c < end; ++c) most = std::fmax(most, std::fabs(x[static_cast<std::size_t>(cache.first_channel + c)]));
    const float largest = cache.storage == Storage::f8_e4m3 ? 448.0F : cache.storage == Storage::f8_e5m2 ? 57344.0F : 127.0F;
    const float scale = std::fmax(most / largest, cache.scales.least);
    if (cache.scales.encoding == CacheScales::Encoding::f32) return scale;
    // No power of two is as large as an infinity.
    return std::isinf(scale) ? NAN : static_cast<float>(std::exp2(std::ceil(std::log2(double{scale}))));
  }

  const PrepareInputs& inputs_;
  const PrepareOutputs& outputs_;
  const PrepareSpec& spec_;
  const ConstTensorView& first_;
  NaiveRotation turn_;
};

}  // namespace phasor::reference
