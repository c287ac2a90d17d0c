// SPDX-License-Identifier: Apache-2.0
// Factors of queries by their positions, on the CPU: a first walk checks every position, a second writes.
#include "job/positions/temperature.hpp"

#include "cpu/run.hpp"
#include "job/check.hpp"

namespace phasor::cpu {

Status run_temperature(job::TemperatureJob& job, const Execution& /*execution*/) {
  const std::int64_t tokens = job.out.shape[0] * job.out.shape[1];
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (std::isnan(temperature_of(job, i).high)) {
      return job::error(job::kFillTemperature, "token {} has a position without temperature, wanted none below {}", i,
                        -job.temperature.shift);
    }
  }
  for (std::int64_t i = 0; i < tokens; ++i) put_factor(job, i, temperature_of(job, i));
  return {};
}

}  // namespace phasor::cpu
