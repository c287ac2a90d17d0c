// SPDX-License-Identifier: Apache-2.0
// A runner without threads, for tests of many small calls.
#pragma once

#include "phasor/rotary.hpp"

namespace phasor::test {

/// One task after the other: a loaded machine spends seconds in the barriers of hundreds of small parallel loops.
inline const Runner kSerial = {[](void* /*context*/, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
                                 for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
                               },
                               nullptr};

}  // namespace phasor::test
