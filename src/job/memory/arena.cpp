// SPDX-License-Identifier: Apache-2.0
#include "job/memory/arena.hpp"

#include "job/check.hpp"

namespace phasor::attend {

Status Arena::check(const char* where) const {
  if (workspace_->more) return gives_ ? Status() : Status::out_of_memory();
  const auto is = static_cast<std::int64_t>(workspace_->memory.size());
  if (gives_ && is >= needed()) return {};
  return job::error(where, "the workspace has {} bytes, wanted {}", is, needed());
}

}  // namespace phasor::attend
