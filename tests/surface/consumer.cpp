// SPDX-License-Identifier: Apache-2.0
// A user's program: rotates one query by a quarter turn and checks it, with nothing but the umbrella header.
#include <phasor/phasor.hpp>

#include <array>
#include <cstdio>

int main() {
  // A quarter turn is not a double; this frequency misses it by 6e-17, far below what float32 shows.
  const phasor::RotarySpec spec{.head_dim = 2, .scaling = phasor::GivenFrequencies{.frequencies = {1.5707963267948966}}};
  const auto rotary = phasor::Rotary::make(spec);
  if (!rotary) {
    std::printf("%s\n", rotary.status().message().c_str());
    return 1;
  }
  std::array<float, 2> q{3, 4};
  const phasor::Status status = rotary->apply(phasor::view(q.data(), {1, 1, 1, 2}), phasor::positions_from(1));
  if (!status) {
    std::printf("%s\n", status.message().c_str());
    return 1;
  }
  std::printf("phasor %s: (3, 4) turned by a quarter is (%g, %g)\n", phasor::version().data(), static_cast<double>(q[0]),
              static_cast<double>(q[1]));
  return q[0] == -4 && q[1] == 3 ? 0 : 1;
}
