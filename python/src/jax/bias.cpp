// SPDX-License-Identifier: Apache-2.0
// Biases on scores for JAX: filled, and the gradient by their parameters.
#include "phasor/bias.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "jax/failure.hpp"
#include "jax/handlers.hpp"
#include "jax/plans.hpp"
#include "phasor/serialised.hpp"

namespace phasor::python::jax {

namespace {

Bias bias_of(std::string_view text) {
  return plans<Bias>().of(text, [](std::string_view spec) { return demand(Bias::make(demand(bias_spec_from_json(spec)))); });
}

/// float32 or float64 as float64.
std::vector<double> reals_at(const std::byte* data, xla::DataType dtype, std::int64_t count) {
  demand(dtype == xla::DataType::f32 || dtype == xla::DataType::f64, "bias: parameters are not of float32 or float64");
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float narrow = 0;
    if (dtype == xla::DataType::f64) std::memcpy(&values[i], data + i * sizeof(double), sizeof(double));
    if (dtype == xla::DataType::f32) std::memcpy(&narrow, data + i * sizeof(float), sizeof(float)), values[i] = narrow;
  }
  return values;
}

std::int64_t position_at(const Positions& positions, std::int64_t row, std::int64_t token) {
  const std::int64_t at = (positions.shape[1] == 1 ? 0 : row * positions.strides[1]) + token;
  demand(positions.type != PositionType::f64, "bias: positions are float64, wanted integers");
  return positions.type == PositionType::i32 ? static_cast<const std::int32_t*>(positions.data)[at]
                                             : static_cast<const std::int64_t*>(positions.data)[at];
}

/// The gradients of one query's row of biases, by distance: what Bias::gradient takes, in runs of consecutive distances.
class RowGradient {
 public:
  RowGradient(const Bias& bias, const TensorView& scores, std::span<double> sum) : bias_(bias), scores_(scores), sum_(sum) {}

  void add(std::int64_t row, std::int64_t query, const Positions& queries, const Positions& keys) {
    // By key positions alone: as of a query at 0.
    const auto* const alibi = std::get_if<Alibi>(&bias_.spec());
    const bool by_key = alibi != nullptr && alibi->form == AlibiForm::key_position;
    const std::int64_t at = by_key ? 0 : position_at(queries, row, query);
    order_.resize(static_cast<std::size_t>(scores_.shape[3]));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    distances_.resize(order_.size());
    for (std::size_t j = 0; j < order_.size(); ++j) distances_[j] = at - position_at(keys, row, static_cast<std::int64_t>(j));
    std::ranges::sort(order_, {}, [&](std::int64_t j) { return std::pair(distances_[static_cast<std::size_t>(j)], j); });
    for (std::size_t begin = 0; begin < order_.size();) begin = add_run(begin, row * scores_.strides[0] + query * scores_.strides[2], at);
  }

 private:
  std::int64_t distance(std::size_t i) const { return distances_[static_cast<std::size_t>(order_[i])]; }
  double gradient_at(std::int64_t element) const {
    return scores_.dtype == DType::f64 ? static_cast<const double*>(scores_.data)[element]
                                       : static_cast<const float*>(scores_.data)[element];
  }

  /// From one key to the last whose distance is at most one more than that of the key before it; gives the key behind.
  std::size_t add_run(std::size_t begin, std::int64_t first_element, std::int64_t query_position) {
    std::size_t end = begin + 1;
    while (end < order_.size() && distance(end) - distance(end - 1) <= 1) ++end;
    const std::int64_t heads = scores_.shape[1];
    const std::int64_t count = distance(end - 1) - distance(begin) + 1;
    diagonal_.assign(static_cast<std::size_t>(heads * count), 0.0);
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t place = distance(i) - distance(begin);
      for (std::int64_t h = 0; h < heads; ++h) {
        diagonal_[static_cast<std::size_t>(h * count + place)] += gradient_at(first_element + h * scores_.strides[1] + order_[i]);
      }
    }
    demand(bias_.gradient(sum_, view(diagonal_.data(), {1, heads, 1, count}), distance(begin), {.query_position = query_position}));
    return end;
  }

  const Bias& bias_;
  TensorView scores_;
  std::span<double> sum_;
  std::vector<std::int64_t> order_, distances_;
  std::vector<double> diagonal_;
};

void write(const std::vector<double>& values, std::byte* to, xla::DataType dtype) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    if (dtype == xla::DataType::f64) std::memcpy(to + i * sizeof(double), &values[i], sizeof(double));
    if (dtype == xla::DataType::f32) std::memcpy(to + i * sizeof(float), &narrow, sizeof(float));
  }
}

Bias with_parameters(const Bias& bias, const Calls& calls, const Operand& parameters, std::int64_t call) {
  return demand(bias.with_parameters(reals_at(calls.at(parameters, call), parameters.dtype(), parameters.own(0))));
}

void demand_host(const Call& call) {
  if (call.on_gpu()) throw Failure(ErrorKind::unsupported, "bias: parameters are on a GPU, wanted the CPU; attention takes them there");
}

}  // namespace

void fill_bias(Call& call) {
  const Bias made = bias_of(call.text("spec"));
  const Operand queries = call.argument(0, 3);
  const Operand keys = call.argument(1, 3);
  const Operand out = call.result(0, 4);
  const bool learned = call.arguments() == 3;
  if (learned) demand_host(call);
  Calls calls(out);
  if (!learned) calls.fold({.whole = std::array{out}, .shareable = std::array{queries, keys}});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const Bias bias = learned ? with_parameters(made, calls, call.argument(2, 1), i) : made;
    demand(bias.fill(calls.tensor(out, i), calls.positions(queries, i), calls.positions(keys, i), 0, call.execution(out.own_elements())));
  }
}

void bias_gradient(Call& call) {
  demand_host(call);
  const Bias made = bias_of(call.text("spec"));
  const Operand parameters = call.argument(2, 1);
  const Operand gradient = call.argument(3, 4);
  const Operand out = call.result(0, 1);
  const Calls calls(out);
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const Bias bias = with_parameters(made, calls, parameters, i);
    const TensorView scores = calls.tensor(gradient, i);
    demand(scores.dtype == DType::f32 || scores.dtype == DType::f64, "bias: the gradient is not of float32 or float64");
    const Positions queries = calls.positions(call.argument(0, 3), i);
    const Positions keys = calls.positions(call.argument(1, 3), i);
    std::vector<double> sum(static_cast<std::size_t>(parameters.own(0)));
    RowGradient rows(bias, scores, sum);
    for (std::int64_t b = 0; b < scores.shape[0]; ++b) {
      for (std::int64_t query = 0; query < scores.shape[2]; ++query) rows.add(b, query, queries, keys);
    }
    write(sum, calls.at(out, i), out.dtype());
  }
}

}  // namespace phasor::python::jax
