// SPDX-License-Identifier: Apache-2.0
// A table that meets queries, as a job.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct QueryTableJob {};

}  // namespace phasor::job
