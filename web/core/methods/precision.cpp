// SPDX-License-Identifier: Apache-2.0
// Precision: errors of cos, sin and scores by position, numerics profile and dtype, and pair by pair.
#include <fmt/core.h>

#include <limits>
#include <utility>

#include "phasor/analysis.hpp"
#include "phasor/analysis_by_pair.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"

namespace phasor::web {
namespace {

constexpr double kNoError = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kFarPositions =
    "1,2,5,10,20,50,100,200,500,1000,2000,5000,10000,20000,50000,100000,200000,500000,1000000,2000000,5000000,10000000";

/// Reports of one profile and dtype, in the order of positions.
struct Report {
  Numerics numerics;
  DType dtype;
  std::vector<double> cos_sin;
  std::vector<double> score;
};

std::vector<Report> reports_of(const std::vector<PrecisionError>& errors) {
  std::vector<Report> reports;
  for (const PrecisionError& error : errors) {
    Report* own = nullptr;
    for (Report& report : reports) {
      if (report.numerics == error.numerics && report.dtype == error.dtype) own = &report;
    }
    if (own == nullptr) own = &reports.emplace_back(Report{error.numerics, error.dtype, {}, {}});
    own->cos_sin.push_back(error.cos_sin);
    own->score.push_back(error.score);
  }
  return reports;
}

/// For each pair the first of the positions at which its error passes the limit.
std::vector<double> first_over(const Matrix& errors, const figures::Numbers& positions, double limit) {
  std::vector<double> first(static_cast<std::size_t>(errors.columns), kNoError);
  for (std::size_t i = 0; i < errors.values.size(); ++i) {
    double& own = first[i % first.size()];
    if (errors.values[i] > limit && !(own == own)) own = static_cast<double>(positions[i / first.size()]);
  }
  return first;
}

template <class T>
DistanceCheck check_distances(const Rotary& rotary, std::vector<T> q, std::vector<T> k, const Extents& shape, std::int64_t far) {
  return value_of(distance_check(rotary, view(q.data(), shape), view(k.data(), shape), far), "far_position");
}

std::vector<BFloat16> to_bf16(const std::vector<float>& values) {
  std::vector<BFloat16> list;
  for (const float value : values) {  // the numbers have 20 bits behind the point: cut to the nearest below is as random
    std::uint32_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    __builtin_memcpy(&bits, &value, sizeof(bits));
    list.push_back({static_cast<std::uint16_t>(bits >> 16)});
  }
  return list;
}

}  // namespace

Json precision(Request& request, Blocks& blocks) {
  const RotarySpec spec = request.rotary_spec();
  const figures::Numbers at = request.positions("positions", kFarPositions);
  const auto errors = value_of(profile_errors(spec, at), "spec");
  std::vector<double> exact;
  std::vector<double> hf;
  std::vector<double> vllm;
  std::vector<double> ggml;
  for (const ProfileError& error : errors) {
    exact.push_back(error.exact);
    hf.push_back(error.hf.value_or(kNoError));
    vllm.push_back(error.vllm.value_or(kNoError));
    ggml.push_back(error.ggml.value_or(kNoError));
  }
  return Json::object()
      .with("positions", blocks.add(at))
      .with("exact", blocks.add(std::move(exact)))
      .with("hf", blocks.add(std::move(hf)))
      .with("vllm", blocks.add(std::move(vllm)))
      .with("ggml", blocks.add(std::move(ggml)));
}

Json precision_reports(Request& request, Blocks& blocks) {
  const RotarySpec spec = request.rotary_spec();
  const figures::Numbers at = request.positions("positions", "1000,100000,1000000");
  const std::int64_t distance = request.integer("distance", 64);
  Json list = Json::array();
  for (Report& report : reports_of(value_of(precision_report(spec, at, distance), "spec"))) {
    list.push_back(Json::object()
                       .with("numerics", figures::name_of(report.numerics))
                       .with("dtype", phasor::name_of(report.dtype))
                       .with("cos_sin", blocks.add(std::move(report.cos_sin)))
                       .with("score", blocks.add(std::move(report.score))));
  }
  return Json::object().with("positions", blocks.add(at)).with("distance", distance).with("reports", list);
}

Json precision_pairs(Request& request, Blocks& blocks) {
  const RotarySpec spec = request.rotary_spec();
  const figures::Numbers at = request.positions("positions", "1000000");
  const double limit = request.number("limit", 0.001);
  std::vector<PairErrors> all = value_of(pair_errors(spec, at), "spec");
  Json list = Json::array();
  const std::int64_t pairs = all.front().errors.columns;
  for (PairErrors& one : all) {
    std::vector<double> first = first_over(one.errors, at, limit);
    list.push_back(Json::object()
                       .with("numerics", figures::name_of(one.numerics))
                       .with("errors", blocks.add(std::move(one.errors)))
                       .with("first_over", blocks.add(std::move(first))));
  }
  return Json::object().with("positions", blocks.add(at)).with("pairs", pairs).with("profiles", list);
}

Json precision_distance(Request& request, Blocks& /*blocks*/) {
  const Rotary rotary = value_of(Rotary::make(request.rotary_spec()), "spec");
  const std::string dtype = request.choice("dtype", {"f32", "bf16"});
  const std::int64_t far = request.integer("far_position", 1000000);
  const Extents shape{1, request.integer("tokens", 64, {1, 1024}), request.integer("heads", 1, {1, 16}), rotary.spec().head_dim};
  Random random(request.integer("seed", 1));
  const std::int64_t count = shape[1] * shape[2] * shape[3];
  if (count > std::int64_t{1} << 22) refuse("tokens", "q has too many numbers, wanted at most 2^22");
  const auto q = random.normal<float>(count);
  const auto k = random.normal<float>(count);
  const DistanceCheck check =
      dtype == "f32" ? check_distances(rotary, q, k, shape, far) : check_distances(rotary, to_bf16(q), to_bf16(k), shape, far);
  return Json::object()
      .with("scores", check.scores)
      .with("largest_score", check.largest_score)
      .with("exact_difference", check.exact_difference)
      .with("float32_difference", check.float32_difference)
      .with("rounding", check.rounding);
}

}  // namespace phasor::web
