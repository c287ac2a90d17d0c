// SPDX-License-Identifier: Apache-2.0
// Biases of images, as jobs.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct GridJob {};
struct DecomposedJob {};

}  // namespace phasor::job
