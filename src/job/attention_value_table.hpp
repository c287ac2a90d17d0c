// SPDX-License-Identifier: Apache-2.0
// A table added to values, as a job.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct ValueTableJob {};

}  // namespace phasor::job
