// SPDX-License-Identifier: Apache-2.0
// The public functions of biases: check, compute the diagonal, round it once into the tensor.
#include "phasor/bias.hpp"

#include <algorithm>
#include <numeric>

#include "job/bias.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "job/positions.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

std::vector<std::int64_t> distances_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

Status write_diagonal(const plan::BiasPlan& plan, const TensorView& out, std::int64_t first_distance, const BiasPart& part) {
  const auto distances = distances_from(first_distance, out.shape[3]);
  std::vector<double> values(static_cast<std::size_t>(out.shape[1]) * distances.size());
  plan::fill_values(plan, {part.first_head, out.shape[1], part.query_position}, distances, values);
  job::with_element(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t head = 0; head < out.shape[1]; ++head) {
      T* to = static_cast<T*>(out.data) + head * out.strides[1];
      const double* from = values.data() + static_cast<std::size_t>(head) * distances.size();
      for (std::size_t i = 0; i < distances.size(); ++i) to[i] = job::element_of<T>(from[i]);
    }
  });
  return {};
}

Status add_to(std::span<double> sum, const plan::BiasPlan& plan, const ConstTensorView& diagonal, const job::DiagonalCall& call) {
  const auto distances = distances_from(call.first_distance, diagonal.shape[3]);
  std::vector<double> gradient;
  gradient.reserve(static_cast<std::size_t>(diagonal.shape[1]) * distances.size());
  job::with_element(diagonal.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t head = 0; head < diagonal.shape[1]; ++head) {
      const T* from = static_cast<const T*>(diagonal.data) + head * diagonal.strides[1];
      for (std::size_t i = 0; i < distances.size(); ++i) gradient.push_back(job::number_of(from[i]));
    }
  });
  plan::add_gradient(plan, {call.part.first_head, diagonal.shape[1], call.part.query_position}, distances, gradient, sum);
  return {};
}

}  // namespace

Result<Bias> Bias::of(Result<plan::BiasPlan> plan) {
  if (!plan.ok()) return plan.status();
  return spec::without_exceptions([&]() -> Result<Bias> { return Bias(std::make_shared<const plan::BiasPlan>(*std::move(plan))); });
}

Result<Bias> Bias::make(const BiasSpec& spec) { return of(plan::make_bias_plan(spec)); }

Result<Bias> Bias::with_parameters(std::span<const double> parameters) const {
  if (static_cast<std::int64_t>(parameters.size()) != plan_->parameters) {
    return job::error("Bias::with_parameters", "{} parameters, the scheme has {}", parameters.size(), plan_->parameters);
  }
  return of(plan::with_parameters(*plan_, parameters));
}

Status Bias::diagonal(const TensorView& out, std::int64_t first_distance, const BiasPart& part) const {
  if (Status s = job::check_written_diagonal({"Bias::diagonal", first_distance, part}, *plan_, out); !s || job::is_empty(out)) return s;
  return spec::without_exceptions([&] { return write_diagonal(*plan_, out, first_distance, part); });
}

Status Bias::gradient(std::span<double> sum, const ConstTensorView& diagonal, std::int64_t first_distance, const BiasPart& part) const {
  const job::DiagonalCall call = {"Bias::gradient", first_distance, part};
  if (Status s = job::check_diagonal(call, *plan_, diagonal); !s) return s;
  if (static_cast<std::int64_t>(sum.size()) != plan_->parameters) {
    return job::error(call.where, "sum has {} entries, the scheme has {} parameters", sum.size(), plan_->parameters);
  }
  if (job::is_empty(diagonal)) return {};
  return spec::without_exceptions([&] { return add_to(sum, *plan_, diagonal, call); });
}

const BiasSpec& Bias::spec() const { return plan_->spec; }
std::int64_t Bias::heads() const { return plan_->heads; }
std::int64_t Bias::parameter_count() const { return plan_->parameters; }
const std::vector<double>& Bias::slopes() const { return plan_->slopes; }
std::int64_t Bias::rows() const { return plan_->rows; }
std::int64_t Bias::row(std::int64_t distance) const {
  constexpr std::int64_t farthest = std::int64_t{1} << 62;  // beyond, every row is the same
  return plan::row_of(*plan_, std::clamp(distance, -farthest, farthest));
}

Status fill_window(const PositionsView& out, const Window& window) {
  constexpr const char* where = "fill_window";
  if (window.height < 1 || window.width < 1 || window.height > (1 << 11) || window.width > (1 << 11)) {
    return job::error(where, "the window is {} x {}, wanted 1 to 2048 either way", window.height, window.width);
  }
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = job::check_extents(where, out, 0, window.height * window.width); !s) return s;
  return job::fill(where, out, [&](job::PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      for (std::int64_t t = 0; t < window.height * window.width; ++t) {
        sink.put(b, t, t / window.width * (2 * window.width - 1), t % window.width);
      }
    }
    return Status();
  });
}

}  // namespace phasor
