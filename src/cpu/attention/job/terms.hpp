// SPDX-License-Identifier: Apache-2.0
// The terms of an attention job: one plain-data struct a family.
#pragma once

#include <variant>

#include "cpu/attention/job/bias.hpp"
#include "cpu/attention/job/cope.hpp"
#include "cpu/attention/job/dense.hpp"
#include "cpu/attention/job/grid.hpp"
#include "cpu/attention/job/key_table.hpp"
#include "cpu/attention/job/query_table.hpp"
#include "cpu/attention/job/segment.hpp"
#include "cpu/attention/job/value_table.hpp"

namespace phasor::attend {

using TermJob = std::variant<BiasJob, QueryTableJob, KeyTableJob, ValueTableJob, SegmentJob, GridJob, DecomposedJob, DenseJob, CopeJob>;

}  // namespace phasor::attend
