// SPDX-License-Identifier: Apache-2.0
// Dropout of a call: its numbers checked, then as a job.
#include "cpu/attention/host/call.hpp"
#include "job/check.hpp"
#include "math/philox.hpp"

namespace phasor::attend {

Status check_dropout(const Call& call) {
  const Dropout& dropout = call.spec->dropout;
  if (!(dropout.probability >= 0 && dropout.probability < 1)) {
    return job::error(call.where, "dropout.probability is {}, wanted 0 or above, and below 1", dropout.probability);
  }
  const Visibility& see = call.spec->visibility;
  const struct {
    const char* name;
    std::int64_t first, count;
  } numbered[] = {{"first_head", dropout.first_head, call.inputs->q.shape[2]},
                  {"first_sequence", dropout.first_sequence, is_varlen(see) ? see.query_starts.size - 1 : call.inputs->q.shape[0]}};
  constexpr std::int64_t kMost = std::int64_t{1} << 32;  // a counter has a word for each
  for (const auto& one : numbered) {
    if (one.first >= 0 && one.first <= kMost && one.count <= kMost - one.first) continue;
    return job::error(call.where, "dropout.{} is {} for {} of them, wanted numbers from 0 to 2^32 - 1", one.name, one.first, one.count);
  }
  return {};
}

job::DropoutJob dropout_of(const Dropout& dropout) {
  return {.present = dropout.probability > 0,
          .threshold = math::dropout_threshold(dropout.probability),
          .factor = math::dropout_factor(dropout.probability),
          .seed = dropout.seed,
          .offset = dropout.offset,
          .first_head = static_cast<std::uint32_t>(dropout.first_head),
          .first_sequence = static_cast<std::uint32_t>(dropout.first_sequence)};
}

}  // namespace phasor::attend
