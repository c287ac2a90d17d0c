// SPDX-License-Identifier: Apache-2.0
// Sinks on the host side: the numbers that kernels read, their gradient.
#pragma once

#include "cpu/attention/host/prepare.hpp"

namespace phasor::attend {

/// One number for each head, in the type of arithmetic.
void make_sinks(const ConstTensorView& sinks, Arena& arena, Prepared& out);
/// What a query of a head has as lse when there is no key at all.
double lse_without_keys(const ConstTensorView& sinks, std::int64_t head);

/// Sums of query tiles, in order, added to the caller's tensor; heads may share.
void add_sink_gradient(const AttentionJob& job, const TensorView& out);

}  // namespace phasor::attend
