// SPDX-License-Identifier: Apache-2.0
// A table added to values, as a job.
#pragma once

#include <cstdint>

#include "cpu/attention/job/table_rows.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::attend {

struct ValueTableJob {
  TableParts table;
};

}  // namespace phasor::attend
