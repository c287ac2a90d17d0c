// SPDX-License-Identifier: Apache-2.0
// What a launch decides about keys that move: which calls have kernels of their own, how the work is cut.
#pragma once

#include "cuda/moves/move.hpp"
#include "cuda/teams/work.hpp"

namespace phasor::cuda {

/// Whether the kernels of moves/move.hpp can do it: in place, one ladder at whole positions, whole vectors. The general kernel has the
/// rest.
bool is_move(const RotateWork& work);

/// As many tokens as a block's threads ask for at once and its memory holds.
int most_tokens_of_block(const MoveShape& shape);
MoveWork move_work(const RotateWork& work);

struct MoveGrid {
  unsigned blocks;
  unsigned batch;
  unsigned threads;
};
MoveGrid move_grid(const MoveWork& work);

}  // namespace phasor::cuda
