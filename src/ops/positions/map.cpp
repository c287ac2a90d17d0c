// SPDX-License-Identifier: Apache-2.0
// Positions of the passes of a position map, and the temperatures of queries.
#include <cmath>
#include <limits>

#include "job/overlap.hpp"
#include "job/positions/positions.hpp"
#include "math/positions.hpp"
#include "plan/position_map.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor {
namespace {

using job::error;
using job::PositionSink;
using math::DoubleDouble;

constexpr DoubleDouble kNoValue = {std::numeric_limits<double>::quiet_NaN(), 0};

/// At a position whose floor is `floored` and which is `p_and_1` - 1.
DoubleDouble temperature_at(const QueryTemperature& t, std::int64_t floored, DoubleDouble p_and_1) {
  if (t.kind == QueryTemperature::Kind::log_n) {
    if (t.length < 2 || floored < 0) return kNoValue;
    const DoubleDouble beyond = p_and_1 + -math::exact(static_cast<std::uint64_t>(t.length));
    return beyond.high <= 0 ? DoubleDouble{1, 0} : math::log_n_temperature(p_and_1, t.length);
  }
  std::int64_t shifted = 0;
  if (t.length < 1 || !std::isfinite(t.scale) || __builtin_add_overflow(floored, t.shift, &shifted) || shifted < 0) return kNoValue;
  return math::floored_log_temperature(t.scale, shifted / t.length);
}

DoubleDouble temperature_of(const QueryTemperature& t, std::int64_t position) {
  if (position < 0) return temperature_at(t, position, {0, 0});
  return temperature_at(t, position, math::exact(static_cast<std::uint64_t>(position) + 1));
}
DoubleDouble temperature_of(const QueryTemperature& t, double position) {
  if (!(std::fabs(position) < 0x1p63)) return kNoValue;
  return temperature_at(t, static_cast<std::int64_t>(std::floor(position)), math::two_sum(position, 1));
}

/// The i-th of (B, T) positions.
DoubleDouble temperature_of(const QueryTemperature& t, const Positions& p, std::int64_t i) {
  if (p.data == nullptr) return temperature_of(t, job::integer_at(p, 0, i));
  const std::int64_t b = i / p.shape[2];
  const std::int64_t token = i % p.shape[2];
  if (p.type != PositionType::f64) return temperature_of(t, job::integer_at(p, b, token));
  return temperature_of(t, static_cast<const double*>(p.data)[b * p.strides[1] + token * p.strides[2]]);
}

Status check_temperature(const char* where, const QueryTemperature& t) {
  const bool log_n = t.kind == QueryTemperature::Kind::log_n;
  if (!log_n && t.kind != QueryTemperature::Kind::floored_log) return error(where, "kind is unknown ({})", static_cast<int>(t.kind));
  if (t.length < (log_n ? 2 : 1)) return error(where, "length is {}, wanted at least {}", t.length, log_n ? 2 : 1);
  if (!log_n && !std::isfinite(t.scale)) return error(where, "scale is {}, wanted a number", t.scale);
  return {};
}

Status check_factors(const char* where, std::span<float> out, const Positions& p) {
  const auto n = static_cast<std::int64_t>(out.size());
  if (p.data == nullptr) {
    return p.shape[2] == 0 ? Status() : error(where, "positions have null data and {} tokens, wanted memory", p.shape[2]);
  }
  if (Status s = job::check_positions(where, p, {p.shape[1], p.shape[2]}); !s) return s;
  if (p.shape[1] * p.shape[2] != n) return error(where, "out has {} elements, wanted {} x {}", n, p.shape[1], p.shape[2]);
  if (job::overlap(view(out.data(), {1, 1, 1, n}), job::view_of(p)) != job::Overlap::none) {
    return error(where, "positions lie in out, wanted them apart");
  }
  return {};
}

}  // namespace

double query_temperature(const QueryTemperature& temperature, std::int64_t position) { return temperature_of(temperature, position).high; }

Status fill_temperature(std::span<float> out, const QueryTemperature& temperature, const Positions& positions) {
  constexpr const char* where = "fill_temperature";
  if (Status s = check_temperature(where, temperature); !s) return s;
  if (Status s = check_factors(where, out, positions); !s) return s;
  const auto n = static_cast<std::int64_t>(out.size());
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(temperature_of(temperature, positions, i).high)) {
      return error(where, "token {} has a position without temperature, wanted none below {}", i, -temperature.shift);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    out[static_cast<std::size_t>(i)] = math::round_to_float(temperature_of(temperature, positions, i), 0).nearest;
  }
  return {};
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
