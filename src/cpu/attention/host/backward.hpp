// SPDX-License-Identifier: Apache-2.0
// How a backward call is cut; its terms must know the parts before they lay out their sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/attention/host/prepare.hpp"
#include "cpu/attention/job/attention.hpp"
#include "phasor/attention.hpp"

namespace phasor::attend {

/// Parts of the key tiles of a sequence (job.backward.parts): by shapes and the spec only, so that bits do not depend on threads.
/// The job has its shape and its sequences by then.
/// Whether some term counts keys over all of them, in order.
bool has_cope(const job::AttentionJob& asked);
std::int64_t backward_parts(const job::AttentionJob& asked, const AttentionJob& job);

}  // namespace phasor::attend
