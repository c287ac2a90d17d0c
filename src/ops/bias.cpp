// SPDX-License-Identifier: Apache-2.0
// The public functions of biases: check, choose, run.
#include "phasor/bias.hpp"

#include <algorithm>

#include "job/bias.hpp"
#include "job/check.hpp"
#include "job/positions/positions.hpp"
#include "ops/run.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

using backend::Backend;

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

Status Bias::diagonal(const TensorView& out, std::int64_t first_distance, const BiasPart& part, const Execution& execution) const {
  const job::DiagonalCall call = {"Bias::diagonal", first_distance, part};
  if (Status s = job::check_written_diagonal(call, *plan_, out); !s || job::is_empty(out)) return s;
  return ops::run<job::DiagonalJob>(job::DiagonalJob{out.device, plan::source_of(*plan_), out, first_distance, part},
                                    &Backend::bias_diagonal, execution);
}

Status Bias::gradient(const TensorView& sum, const ConstTensorView& diagonal, std::int64_t first_distance, const BiasPart& part,
                      const Execution& execution) const {
  const job::DiagonalCall call = {"Bias::gradient", first_distance, part};
  if (Status s = job::check_diagonal(call, *plan_, diagonal); !s) return s;
  if (Status s = job::check_parameter_sum(call, *plan_, sum, diagonal); !s || job::is_empty(diagonal)) return s;
  return ops::run<job::DiagonalGradientJob>(
      job::DiagonalGradientJob{diagonal.device, plan::source_of(*plan_), diagonal, first_distance, part, sum}, &Backend::bias_gradient,
      execution);
}

Status Bias::fill(const TensorView& out, const Positions& queries, const Positions& keys, std::int64_t first_head,
                  const Execution& execution) const {
  const job::BlockCall call = {out, queries, keys, first_head};
  if (Status s = job::check_block(call, *plan_); !s || job::is_empty(out)) return s;
  return ops::run<job::BlockJob>(job::BlockJob{out.device, plan::source_of(*plan_), call}, &Backend::bias_fill, execution);
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
