// SPDX-License-Identifier: Apache-2.0
// The temperature of a query by its position: the formula at any position, for the CPU and for devices, and the job that fills a tensor
// with factors. What positions hold is checked by the CPU alone; in memory of another device it is the caller's word.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "job/plain.hpp"
#include "job/rotary.hpp"
#include "math/positions.hpp"

namespace phasor {
PHASOR_MEMBERS(QueryTemperature, kind, scale, length, shift)
}

namespace phasor::job {

/// NaN: where a formula has no value.
PHASOR_HD inline math::DoubleDouble no_temperature() { return {std::numeric_limits<double>::quiet_NaN(), 0}; }

/// At a position whose floor is `floored` and which is `p_and_1` - 1.
PHASOR_HD inline math::DoubleDouble temperature_at(const QueryTemperature& t, std::int64_t floored, math::DoubleDouble p_and_1) {
  if (t.kind == QueryTemperature::Kind::log_n) {
    if (t.length < 2 || floored < 0) return no_temperature();
    const math::DoubleDouble beyond = p_and_1 + -math::exact(static_cast<math::u64>(t.length));
    return beyond.high <= 0 ? math::DoubleDouble{1, 0} : math::log_n_temperature(p_and_1, t.length);
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool outside = t.shift > 0 ? floored > kMost - t.shift : floored < 0;  // beyond int64, or below 0 before it could be
  if (t.length < 1 || !std::isfinite(t.scale) || outside || floored + t.shift < 0) return no_temperature();
  return math::floored_log_temperature(t.scale, (floored + t.shift) / t.length);
}

PHASOR_HD inline math::DoubleDouble temperature_of(const QueryTemperature& t, std::int64_t position) {
  if (position < 0) return temperature_at(t, position, {0, 0});
  return temperature_at(t, position, math::exact(static_cast<math::u64>(position) + 1));
}
PHASOR_HD inline math::DoubleDouble temperature_of(const QueryTemperature& t, double position) {
  if (!(std::fabs(position) < 0x1p63)) return no_temperature();
  return temperature_at(t, static_cast<std::int64_t>(std::floor(position)), math::two_sum(position, 1));
}

struct TemperatureJob {
  Device device;
  TensorView out;  // (B, T, 1, 1), f32
  QueryTemperature temperature;
  PositionSource at;
};
PHASOR_MEMBERS(TemperatureJob, device, out, temperature, at)

inline constexpr const char* kFillTemperature = "fill_temperature";  // begins every message

/// Of token i of all, (B, T) in order.
PHASOR_HD inline math::DoubleDouble temperature_of(const TemperatureJob& job, std::int64_t i) {
  const PositionSource& p = job.at;
  const std::int64_t token = i % job.out.shape[1];
  if (p.data == nullptr) {
    return temperature_of(job.temperature, static_cast<std::int64_t>(static_cast<math::u64>(p.offset) + static_cast<math::u64>(token)));
  }
  const std::int64_t index = i / job.out.shape[1] * p.batch_stride + token * p.token_stride;
  if (p.type == PositionType::f64) return temperature_of(job.temperature, static_cast<const double*>(p.data)[index]);
  const bool narrow = p.type == PositionType::i32;
  return temperature_of(job.temperature, narrow ? std::int64_t{static_cast<const std::int32_t*>(p.data)[index]}
                                                : static_cast<const std::int64_t*>(p.data)[index]);
}
PHASOR_HD inline void put_factor(const TemperatureJob& job, std::int64_t i, math::DoubleDouble factor) {
  const std::int64_t tokens = job.out.shape[1];
  const std::int64_t at = i / tokens * job.out.strides[0] + i % tokens * job.out.strides[1];
  static_cast<float*>(job.out.data)[at] = math::round_to_float(factor, 0).nearest;
}

Status check_temperature(const char* where, const QueryTemperature& t);
Result<TemperatureJob> make_temperature_job(const TensorView& out, const QueryTemperature& temperature, const Positions& positions);

}  // namespace phasor::job
