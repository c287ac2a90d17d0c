// SPDX-License-Identifier: Apache-2.0
// memcpy on the library's runner, so that a rotation on many threads is compared with a copy on the same threads.
#include <algorithm>
#include <cstring>

#include "cpu/common/runner.hpp"
#include "phasor/analysis.hpp"

namespace phasor {
namespace {

/// Few and large, so that each piece is a copy memcpy is good at, yet enough for the threads of most machines.
constexpr std::int64_t kPieces = 64;

struct Copy {
  char* to;
  const char* from;
  std::int64_t bytes;
  std::int64_t piece;
};

}  // namespace

void copy_bytes(void* to, const void* from, std::int64_t bytes, const Runner& runner) {
  if (bytes <= 0) return;
  Copy copy{static_cast<char*>(to), static_cast<const char*>(from), bytes, (bytes + kPieces - 1) / kPieces};
  const cpu::Task task = [](void* context, std::int64_t index) {
    const auto* c = static_cast<const Copy*>(context);
    const std::int64_t begin = index * c->piece;
    std::memcpy(c->to + begin, c->from + begin, static_cast<std::size_t>(std::min(c->piece, c->bytes - begin)));
  };
  cpu::run_tasks(runner, (bytes + copy.piece - 1) / copy.piece, task, &copy);
}

}  // namespace phasor
