// SPDX-License-Identifier: Apache-2.0
// The example of README.md: rotates q and k of one Llama 3.1 layer in place, a million positions into a text.
#include <cstdio>
#include <phasor/phasor.hpp>
#include <vector>

int main() {
  const phasor::RotarySpec spec{.head_dim = 128, .base = 500000, .scaling = phasor::Llama3Scaling{.factor = 8}};
  const auto rope = phasor::Rotary::make(spec);  // immutable: make it once, share it between layers and threads
  if (!rope.ok()) return std::puts(rope.status().message().c_str()), 1;

  const std::int64_t tokens = 16;
  std::vector<float> q(tokens * 32 * 128, 1.0F), k(tokens * 8 * 128, 1.0F);  // (T, H, D)
  const phasor::Status status = rope->apply(phasor::view(q.data(), {1, tokens, 32, 128}), phasor::view(k.data(), {1, tokens, 8, 128}),
                                            phasor::positions_from(1000000));
  if (!status.ok()) return std::puts(status.message().c_str()), 1;
  std::printf("first pair of q at position 1000000: %.7f %.7f\n", q[0], q[64]);
}
