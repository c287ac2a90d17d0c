// SPDX-License-Identifier: Apache-2.0
// Contextual positions, as a job.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct CopeJob {};

}  // namespace phasor::job
