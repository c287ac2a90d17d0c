// SPDX-License-Identifier: Apache-2.0
// A bias by distance, as a job: values laid out by key - query.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct BiasJob {};

}  // namespace phasor::job
