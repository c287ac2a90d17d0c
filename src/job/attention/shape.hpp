// SPDX-License-Identifier: Apache-2.0
// The extents of an attention call.
#pragma once

#include <cstdint>

namespace phasor::job {

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  // Tq
  std::int64_t keys = 0;     // Tk
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t width = 0;        // D
  std::int64_t value_width = 0;  // Dv

  std::int64_t group() const { return heads / key_heads; }
};

}  // namespace phasor::job
