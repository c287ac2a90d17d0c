// SPDX-License-Identifier: Apache-2.0
// A bias given in full, as a job.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct DenseJob {};

}  // namespace phasor::job
