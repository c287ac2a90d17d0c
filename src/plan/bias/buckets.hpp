// SPDX-License-Identifier: Apache-2.0
// Buckets of distances by integer thresholds: the logarithms of T5 and DeBERTa decided exactly, once, when the plan is made.
#pragma once

#include "plan/bias/bias.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::plan {

/// Where each bucket after the first logarithmic one begins, in |r|, rising.
std::vector<std::int64_t> t5_thresholds(const T5Buckets& s);
/// Where DeBERTa's |B| beyond mid changes by one, in |r|, rising.
std::vector<std::int64_t> deberta_thresholds(const DebertaBuckets& s);

RowRule row_rule(const BiasPlan& plan);
/// The row of the table that a distance reads (table_row.hpp).
std::int64_t row_of(const BiasPlan& plan, std::int64_t distance);

}  // namespace phasor::plan
