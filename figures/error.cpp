// SPDX-License-Identifier: Apache-2.0
// How far cos and sin are off by position, on log axes, a curve for each numerics profile.
#include <fmt/core.h>

#include <limits>

#include "figures/figures.hpp"

namespace phasor::figures {
Numbers one_two_five(std::int64_t last) {
  Numbers numbers;
  for (std::int64_t ten = 1; ten <= last; ten *= 10) {
    for (const std::int64_t step : {1, 2, 5}) {
      if (step * ten < last) numbers.push_back(step * ten);
    }
    if (ten > last / 10) break;
  }
  numbers.push_back(last);
  return numbers;
}

Result<Figure> error_figure(const NamedSpec& spec, const Numbers& positions) {
  const auto errors = profile_errors(spec.spec, positions);
  if (!errors.ok()) return errors.status();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<Curve> curves{
      {.name = "exact (this library)"}, {.name = "hf (Hugging Face)"}, {.name = "vllm"}, {.name = "ggml (llama.cpp)"}};
  for (const ProfileError& error : *errors) {
    for (Curve& curve : curves) curve.x.push_back(static_cast<double>(error.position));
    curves[0].y.push_back(error.exact);
    curves[1].y.push_back(error.hf.value_or(kNone));
    curves[2].y.push_back(error.vllm.value_or(kNone));
    curves[3].y.push_back(error.ggml.value_or(kNone));
  }
  Panel panel{.x = {.label = "position", .log = true}, .y = {.label = "largest error of a cosine or sine", .log = true}};
  for (Curve& curve : curves) {
    curve.mark = curve.name == "vllm" ? Mark::points : Mark::line_and_points;  // where it is what hf is, both are seen
    panel.curves.push_back(std::move(curve));
  }
  return Figure{.title = "Error of float32 tables by numerics profile: " + spec.name, .panels = {std::move(panel)}};
}

}  // namespace phasor::figures
