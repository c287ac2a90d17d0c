// SPDX-License-Identifier: Apache-2.0
// Factors of queries by their positions, on a device: one token, which is what a thread does.
#pragma once

#include "job/positions/temperature.hpp"

namespace phasor::cuda {

PHASOR_HD inline std::int64_t temperature_items(const job::TemperatureJob& job) { return job.out.shape[0] * job.out.shape[1]; }

/// Where the CPU would refuse the position, the factor is 1: a token that is of no sequence (-1) stays what it is.
PHASOR_HD inline void temperature_item(const job::TemperatureJob& job, std::int64_t item) {
  const math::DoubleDouble factor = job::temperature_of(job, item);
  job::put_factor(job, item, factor.high == factor.high ? factor : math::DoubleDouble{1, 0});
}

}  // namespace phasor::cuda
