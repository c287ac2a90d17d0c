// SPDX-License-Identifier: Apache-2.0
// How many threads a call may use, whoever they belong to.
#pragma once

#include <cstdint>

namespace phasor::python {

inline constexpr std::int64_t kMostThreads = 1024;  // beyond this a mistake: every task would get a thread of its own, which stays
inline constexpr std::int64_t kAlone = 1 << 15;     // elements, some 10 us: up to there another thread does not pay

/// What set_num_threads said; 0: nothing.
std::int64_t thread_limit();

}  // namespace phasor::python
