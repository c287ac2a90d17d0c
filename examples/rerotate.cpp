// SPDX-License-Identifier: Apache-2.0
// A cache that loses its oldest tokens: the keys that stay move to the front, without being computed again.
#include <cstdio>
#include <phasor/phasor.hpp>
#include <vector>

int main() {
  const auto rope = phasor::Rotary::make({.head_dim = 128, .base = 500000});
  if (!rope.ok()) return std::puts(rope.status().message().c_str()), 1;

  const std::int64_t tokens = 16;
  std::vector<float> keys(tokens * 8 * 128, 1.0F);  // (T, H, D)
  const phasor::TensorView cache = phasor::view(keys.data(), {1, tokens, 8, 128});
  phasor::Status status = rope->apply(cache, phasor::positions_from(1000));
  // Positions 1000, 1001, ... become 0, 1, ...: one rotation by the difference of the exact phases.
  if (status.ok()) status = phasor::rerotate(cache, {*rope, phasor::positions_from(1000)}, {*rope, phasor::positions_from(0)});
  if (!status.ok()) return std::puts(status.message().c_str()), 1;
  std::printf("first pair of the first key, now at position 0: %.7f %.7f\n", keys[0], keys[64]);
}
