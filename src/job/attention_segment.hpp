// SPDX-License-Identifier: Apache-2.0
// Segments that are the same or differ, as a job.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct SegmentJob {};

}  // namespace phasor::job
