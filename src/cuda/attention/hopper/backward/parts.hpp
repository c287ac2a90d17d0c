// SPDX-License-Identifier: Apache-2.0
// A backward in parts. Strips of a table by distance grow with all that is near, which may be everything: then some batch rows, or some
// key heads of one, come at a time, each a backward of its own in the same memory. Tables' gradients of later parts are added to those of
// the first, in order.
#pragma once

#include "cuda/attention/hopper/backward/run.hpp"

namespace phasor::cuda::hopper {

/// Of how many key heads, and batch rows, a part is; the last ones may have less. Not all key heads: one batch row.
struct Parts {
  std::int64_t key_heads;
  std::int64_t batch;

  std::int64_t of_heads(const Backward& b) const { return (b.forward.k.shape[2] + key_heads - 1) / key_heads; }
  std::int64_t count(const Backward& b) const { return (b.forward.q.shape[0] + batch - 1) / batch * of_heads(b); }
};
/// As few as memory allows; nothing to a part: not even one key head fits. Calls without tables by distance are one part.
Parts parts_for(const Backward& backward);
Backward part_of(const Backward& backward, const Parts& parts, std::int64_t number);

}  // namespace phasor::cuda::hopper
