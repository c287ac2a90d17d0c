// SPDX-License-Identifier: Apache-2.0
// Dropout of a call as a job.
#include "cpu/attention/host/call.hpp"
#include "math/philox.hpp"

namespace phasor::attend {

DropoutJob dropout_of(const Dropout& dropout) {
  return {.present = dropout.probability > 0,
          .threshold = math::dropout_threshold(dropout.probability),
          .factor = math::dropout_factor(dropout.probability),
          .seed = dropout.seed,
          .offset = dropout.offset,
          .first_head = static_cast<std::uint32_t>(dropout.first_head),
          .first_sequence = static_cast<std::uint32_t>(dropout.first_sequence)};
}

}  // namespace phasor::attend
