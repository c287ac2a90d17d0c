// SPDX-License-Identifier: Apache-2.0
// Positions of the passes of a position map, and the temperatures of queries.
#include "job/positions/positions.hpp"
#include "job/positions/temperature.hpp"
#include "ops/run.hpp"
#include "phasor/position_builders.hpp"
#include "plan/position_map.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor {
namespace {

using job::error;
using job::PositionSink;

/// Of a span, which is all of (B, T).
Status check_factors(const char* where, std::span<float> out, const Positions& p) {
  const auto n = static_cast<std::int64_t>(out.size());
  if (p.data == nullptr) {
    return p.shape[2] == 0 ? Status() : error(where, "positions have null data and {} tokens, wanted memory", p.shape[2]);
  }
  if (Status s = job::check_positions(where, p, {p.shape[1], p.shape[2]}); !s) return s;
  if (p.shape[1] * p.shape[2] != n) return error(where, "out has {} elements, wanted {} x {}", n, p.shape[1], p.shape[2]);
  return {};
}

}  // namespace

double query_temperature(const QueryTemperature& temperature, std::int64_t position) {
  return job::temperature_of(temperature, position).high;
}

Status fill_temperature(const TensorView& out, const QueryTemperature& temperature, const Positions& positions,
                        const Execution& execution) {
  return ops::run(job::make_temperature_job(out, temperature, positions), &backend::Backend::temperature, execution);
}

Status fill_temperature(std::span<float> out, const QueryTemperature& temperature, const Positions& positions) {
  if (Status s = job::check_temperature(job::kFillTemperature, temperature); !s) return s;
  if (Status s = check_factors(job::kFillTemperature, out, positions); !s) return s;
  const auto n = static_cast<std::int64_t>(out.size());
  const bool counted = positions.data == nullptr;
  return fill_temperature(view(out.data(), {counted ? 1 : positions.shape[1], counted ? n : positions.shape[2], 1, 1}), temperature,
                          positions);
}

Status fill_pass_positions(const PositionsView& out, const PositionMap& map, const MapPass& pass, const Positions& at) {
  constexpr const char* where = "fill_pass_positions";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = spec::check_position_map(where, map); !s) return s;
  if (pass.pass < 0 || pass.pass >= passes_of(map)) return error(where, "pass is {}, wanted 0 to {}", pass.pass, passes_of(map) - 1);
  if (Status s = job::check_source(where, at, out); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      for (std::int64_t t = 0; t < out.shape[2]; ++t) {
        const std::int64_t p = job::integer_at(at, b, t);
        if (p < 0) return error(where, "token {} of batch row {} is at {}, wanted at least 0", t, b, p);
        const plan::PassPosition to = plan::pass_position(map, pass, p);
        for (std::int64_t axis = 0; axis < out.shape[0]; ++axis) {
          to.whole ? sink.put_axis({axis, b, t}, to.base, to.n) : sink.put_fraction({axis, b, t}, to.fraction);
        }
      }
    }
    return Status();
  });
}

}  // namespace phasor
