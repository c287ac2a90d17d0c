// SPDX-License-Identifier: Apache-2.0
// The terms of an attention job: one plain-data struct a family.
#pragma once

#include <variant>

#include "job/attention/bias.hpp"
#include "job/attention/cope.hpp"
#include "job/attention/dense.hpp"
#include "job/attention/grid.hpp"
#include "job/attention/key_table.hpp"
#include "job/attention/query_table.hpp"
#include "job/attention/segment.hpp"
#include "job/attention/value_table.hpp"

namespace phasor::job {

using TermJob = std::variant<BiasJob, QueryTableJob, KeyTableJob, ValueTableJob, SegmentJob, GridJob, DecomposedJob, DenseJob, CopeJob>;

}  // namespace phasor::job
