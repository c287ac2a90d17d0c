// SPDX-License-Identifier: Apache-2.0
// Problems of CoPE in 16 bits, its table too: what tensor cores of a GPU take.
#pragma once

#include "attention/support/narrow_problems.hpp"

namespace phasor::test {

/// Tables of one row, of few, of as many as the paper has and of more than there are keys; shared by heads or not; sinks; a ragged batch.
std::vector<NarrowProblem> cope_problems(const ref::Shape& s);
/// Every mask, made causal: CoPE wants that.
std::vector<NarrowProblem> masked_cope_problems(const ref::Shape& s);
/// Lengths of one token and at the ends of tiles, more queries than keys (some see nothing) and fewer.
std::vector<NarrowProblem> cope_lengths();
/// Gates that are one half: counts are whole numbers or end in one half, and some are the last row exactly. Gates that are nearly 0, so
/// that nothing is counted, or nearly 1.
std::vector<NarrowProblem> cope_clips();
/// So many keys that whole tiles are beyond the last row, for every query and for some.
std::vector<NarrowProblem> long_cope_problems();

}  // namespace phasor::test
