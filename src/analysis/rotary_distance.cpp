// SPDX-License-Identifier: Apache-2.0
// Whether scores depend on the distance alone: the same q and k, rotated near position 0 and far away, by exact and by float32 angles.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "analysis/float32_angles.hpp"
#include "analysis/values.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::larger;
using analysis::value_at;

/// Keeps the size of a copy within 64 bits.
constexpr std::int64_t kMostTokens = 1 << 20;
/// About this many queries are compared, each in every head.
constexpr std::int64_t kQueries = 128;

/// A tensor of its own memory, contiguous.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;

  Tensor(DType dtype, const Extents& shape)
      : memory(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3] * bytes_of(dtype))),
        view{memory.data(), dtype, shape, contiguous_strides(shape)} {}
};

struct QueryKey {
  Tensor q;
  Tensor k;
};

std::int64_t row_start(const ConstTensorView& x, std::int64_t token, std::int64_t head) {
  return token * x.strides[1] + head * x.strides[2];
}

double dot(const ConstTensorView& a, std::int64_t a_start, const ConstTensorView& b, std::int64_t b_start) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.shape[3]; ++i) sum += value_at(a, a_start + i) * value_at(b, b_start + i);
  return sum;
}

double largest_norm(const ConstTensorView& x) {
  double norm = 0;
  for (std::int64_t token = 0; token < x.shape[1]; ++token) {
    for (std::int64_t head = 0; head < x.shape[2]; ++head) {
      const std::int64_t start = row_start(x, token, head);
      norm = larger(norm, dot(x, start, x, start));
    }
  }
  return std::sqrt(norm);
}

/// Relative error of a rotated head: five units of the arithmetic (cos and sin 2, products sqrt 2, sum 1), one of a narrower storage.
double rotation_rounding(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 5 * 0x1p-53;
    case DType::f32:
      return 5 * 0x1p-24;
    case DType::f16:
      return 5 * 0x1p-24 + 0x1p-11;
    case DType::bf16:
      return 5 * 0x1p-24 + 0x1p-8;
  }
  return 0;
}

/// q and k each err by e, near and far: 2 (2 e + e^2) |q| |k|; and the scores are summed in double.
double score_rounding(const ConstTensorView& q, const ConstTensorView& k, double amplitude) {
  const double e = rotation_rounding(q.dtype);
  const double sum = static_cast<double>(q.shape[3]) * 0x1p-52;
  return (2 * (2 * e + e * e) + sum) * amplitude * amplitude * largest_norm(q) * largest_norm(k);
}

Status rotate_exact(const Rotary& rotary, const ConstTensorView& q, const ConstTensorView& k, std::int64_t first, QueryKey& out) {
  return rotary.apply({q, out.q.view}, {k, out.k.view}, positions_from(first));
}

Status rotate_float32(const Rotary& rotary, const ConstTensorView& q, const ConstTensorView& k, std::int64_t first, QueryKey& out) {
  const std::int64_t tokens = q.shape[1];
  const std::int64_t pairs = rotary.rotary_width() / 2;
  std::vector<float> cos;  // (T, P)
  std::vector<float> sin;
  cos.reserve(static_cast<std::size_t>(tokens * pairs));
  sin.reserve(static_cast<std::size_t>(tokens * pairs));
  for (std::int64_t token = 0; token < tokens; ++token) {
    // Wraps like Positions.
    const auto position = static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(token));
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const auto value = analysis::float32_cos_sin(rotary, position, pair);
      cos.push_back(static_cast<float>(value.cos));
      sin.push_back(static_cast<float>(value.sin));
    }
  }
  const RotarySpec& spec = rotary.spec();
  TableLayout layout{spec.rotary_width, spec.rotary_offset, spec.pairing, spec.output_pairing, spec.sense};
  layout.segments = spec.segments;
  const Extents shape{1, tokens, 1, pairs};
  const ConstTensorView cos_view = view(cos.data(), shape);
  const ConstTensorView sin_view = view(sin.data(), shape);
  return apply_rotary({q, out.q.view}, {k, out.k.view}, cos_view, sin_view, layout);
}

/// Distances 0, 1, 2, 4, 8, ... back from a sample of queries, in every head. Returns the largest change between near and far.
double compare_scores(const QueryKey& near, const QueryKey& far, DistanceCheck& check) {
  const std::int64_t tokens = near.q.view.shape[1];
  const std::int64_t heads = near.q.view.shape[2];
  const std::int64_t group = heads / near.k.view.shape[2];
  double difference = 0;
  check.scores = 0;
  for (std::int64_t token = tokens - 1; token >= 0; token -= std::max<std::int64_t>(1, tokens / kQueries)) {
    for (std::int64_t distance = 0; distance <= token; distance = std::max<std::int64_t>(1, 2 * distance)) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t q = row_start(near.q.view, token, head);
        const std::int64_t k = row_start(near.k.view, token - distance, head / group);
        const double score = dot(near.q.view, q, near.k.view, k);
        check.largest_score = larger(check.largest_score, std::abs(score));
        difference = larger(difference, std::abs(score - dot(far.q.view, q, far.k.view, k)));
        ++check.scores;
      }
    }
  }
  return difference;
}

/// What the copies and the loops rely on. The rest (dtype, data, strides) is checked by the rotation itself.
Status check_shapes(const ConstTensorView& q, const ConstTensorView& k, std::int64_t head_dim) {
  const auto wrong = [](const char* what, std::int64_t is, const char* wanted, std::int64_t number) {
    return Status::invalid(std::string("distance_check: ") + what + " " + std::to_string(is) + ", wanted " + wanted +
                           std::to_string(number));
  };
  if (q.shape[0] != 1) return wrong("q has batch", q.shape[0], "", 1);
  if (k.shape[0] != 1) return wrong("k has batch", k.shape[0], "", 1);
  if (q.shape[1] < 1) return wrong("tokens of q are", q.shape[1], "at least ", 1);
  if (k.shape[1] != q.shape[1]) return wrong("tokens of k are", k.shape[1], "as many as q has, ", q.shape[1]);
  if (q.shape[2] < 1) return wrong("heads of q are", q.shape[2], "at least ", 1);
  if (k.shape[2] < 1 || q.shape[2] % k.shape[2] != 0) return wrong("heads of k are", k.shape[2], "a divisor of ", q.shape[2]);
  if (q.shape[1] > kMostTokens) return wrong("tokens of q are", q.shape[1], "at most ", kMostTokens);
  if (q.shape[2] > kMostTokens) return wrong("heads of q are", q.shape[2], "at most ", kMostTokens);
  if (q.shape[3] != head_dim) return wrong("q has head_dim", q.shape[3], "the spec's ", head_dim);
  if (k.shape[3] != head_dim) return wrong("k has head_dim", k.shape[3], "the spec's ", head_dim);
  return {};
}

Result<DistanceCheck> check_distances(const Rotary& rotary, const ConstTensorView& q, const ConstTensorView& k, std::int64_t far_position) {
  QueryKey near{{q.dtype, q.shape}, {k.dtype, k.shape}};
  QueryKey far{{q.dtype, q.shape}, {k.dtype, k.shape}};
  DistanceCheck check;
  for (const bool exact : {false, true}) {  // exact last: largest_score is of the exact rotation
    const auto rotate = exact ? rotate_exact : rotate_float32;
    check.largest_score = 0;
    Status status = rotate(rotary, q, k, 0, near);
    if (status.ok()) status = rotate(rotary, q, k, far_position, far);
    if (!status.ok()) return status;
    (exact ? check.exact_difference : check.float32_difference) = compare_scores(near, far, check);
  }
  check.rounding = score_rounding(q, k, rotary.amplitude());
  return check;
}

}  // namespace

Result<DistanceCheck> distance_check(const Rotary& rotary, const ConstTensorView& q, const ConstTensorView& k, std::int64_t far_position) {
  Status status = analysis::check_relative("distance_check", rotary);
  if (status.ok()) status = analysis::check_heads("distance_check", rotary);
  if (status.ok()) status = check_shapes(q, k, rotary.spec().head_dim);
  if (!status.ok()) return status;
  for (const auto& [name, x] : {std::pair<const char*, const ConstTensorView&>{"q", q}, {"k", k}}) {
    if (Status sound = job::check_view("distance_check", name, x); !sound.ok()) return sound;
  }
  return spec::without_exceptions([&] { return check_distances(rotary, q, k, far_position); });
}

}  // namespace phasor
