// SPDX-License-Identifier: Apache-2.0
// The precision report: what each numerics profile and storage dtype costs in cos and sin and in a score.
#include <cmath>
#include <limits>
#include <string>

#include "analysis/exact_pairs.hpp"
#include "analysis/rows.hpp"
#include "analysis/table.hpp"
#include "analysis/values.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::Table;
using analysis::table_at;

constexpr const char* kWhere = "precision_report";
constexpr Numerics kNumerics[] = {Numerics::exact, Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml};
constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16};

/// The dtype that a profile keeps its tables in: hf and vllm round them to the tensor's.
DType table_dtype(Numerics numerics, DType tensor) { return numerics == Numerics::hf || numerics == Numerics::vllm ? tensor : DType::f32; }

/// The nearest value of the dtype.
double stored(float value, DType dtype) {
  const math::One<float> d;
  if (std::isnan(value)) return value;
  if (dtype == DType::f16) return math::rounded_f16(d, value);
  return dtype == DType::bf16 ? math::rounded_bf16(d, value) : value;
}

double table_error(const Table<float>& is, const Table<double>& truth, DType dtype) {
  double largest = 0;
  for (std::size_t i = 0; i < truth.cos.size(); ++i) {
    largest = analysis::larger(largest, std::abs(stored(is.cos[i], dtype) - truth.cos[i]));
    largest = analysis::larger(largest, std::abs(stored(is.sin[i], dtype) - truth.sin[i]));
  }
  return largest;
}

/// A head whose rotated channels are 1, rotated at a position, as float64. `Element` is what the tensor holds.
template <class Element>
Result<analysis::Rows> rotated(const Rotary& rotary, Element one, std::int64_t position) {
  const RotarySpec& spec = rotary.spec();
  std::vector<Element> head(static_cast<std::size_t>(spec.head_dim), Element{});
  for (std::int64_t i = 0; i < rotary.rotary_width(); ++i) head[static_cast<std::size_t>(spec.rotary_offset + i)] = one;
  const TensorView tensor = view(head.data(), {1, 1, 1, spec.head_dim});
  const Status status = rotary.apply(tensor, positions_from(position));
  if (!status.ok()) return status;
  return analysis::read_rows(tensor, {kWhere, "q", 1, 1});
}

Result<analysis::Rows> rotated(const Rotary& rotary, DType dtype, std::int64_t position) {
  if (dtype == DType::f16) return rotated(rotary, Float16{0x3c00}, position);
  if (dtype == DType::bf16) return rotated(rotary, BFloat16{0x3f80}, position);
  return rotated(rotary, 1.0F, position);
}

struct Question {
  std::int64_t position;
  std::int64_t distance;
};

/// Of (1, 1) with (1, 1) in every pair, halved: their lengths are the root of 2.
Result<double> score_of(const Rotary& rotary, DType dtype, const Question& at) {
  const auto q = rotated(rotary, dtype, at.position + at.distance);
  if (!q.ok()) return q.status();
  const auto k = rotated(rotary, dtype, at.position);
  if (!k.ok()) return k.status();
  return analysis::dot(q->row(0), k->row(0), q->width) / 2;
}

Status add_errors(const Rotary& rotary, const Question& at, const Table<double>& truth, double score, std::vector<PrecisionError>& list) {
  const auto table = table_at<float>(rotary, at.position);
  if (!table.ok()) return table.status();
  const Numerics numerics = rotary.spec().numerics;
  for (const DType dtype : kDTypes) {
    const auto is = score_of(rotary, dtype, at);
    if (!is.ok()) return is.status();
    list.push_back({at.position, numerics, dtype, table_error(*table, truth, table_dtype(numerics, dtype)), std::abs(*is - score)});
  }
  return {};
}

/// Whether a + b fits in 64 bits.
bool sum_fits(std::int64_t a, std::int64_t b) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  return b >= 0 ? a <= kMost - b : a >= kLeast - b;
}

Result<std::vector<PrecisionError>> report(const RotarySpec& spec, std::span<const std::int64_t> positions, std::int64_t distance) {
  const Result<std::vector<Rotary>> profiles = analysis::in_profiles(spec, kNumerics);
  if (!profiles.ok()) return profiles.status();
  const Rotary& exact = profiles->front();
  const auto pairs = analysis::exact_pairs(kWhere, exact);
  if (!pairs.ok()) return pairs.status();
  const double score = analysis::score_sum(*pairs, distance);
  std::vector<PrecisionError> list;
  for (const std::int64_t position : positions) {
    if (!sum_fits(position, distance)) {
      return job::error(kWhere, "position is {} and distance {}, wanted a sum that fits in 64 bits", position, distance);
    }
    const auto truth = table_at<double>(exact, position);
    if (!truth.ok()) return truth.status();
    for (const Rotary& rotary : *profiles) {
      if (Status status = add_errors(rotary, {position, distance}, *truth, score, list); !status) return status;
    }
  }
  return list;
}

}  // namespace

Result<std::vector<PrecisionError>> precision_report(const RotarySpec& spec, std::span<const std::int64_t> at, std::int64_t distance) {
  return spec::without_exceptions([&] { return report(spec, at, distance); });
}

}  // namespace phasor
