// SPDX-License-Identifier: Apache-2.0
// The terms of an attention job: one plain-data struct a family.
#pragma once

#include <variant>

#include "job/attention_bias.hpp"
#include "job/attention_cope.hpp"
#include "job/attention_dense.hpp"
#include "job/attention_grid.hpp"
#include "job/attention_key_table.hpp"
#include "job/attention_query_table.hpp"
#include "job/attention_segment.hpp"
#include "job/attention_value_table.hpp"

namespace phasor::job {

using TermJob = std::variant<BiasJob, QueryTableJob, KeyTableJob, ValueTableJob, SegmentJob, GridJob, DecomposedJob, DenseJob, CopeJob>;

}  // namespace phasor::job
