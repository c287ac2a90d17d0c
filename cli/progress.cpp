// SPDX-License-Identifier: Apache-2.0
// What depends on whether somebody watches: progress and colour.
#include "progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace phasor::cli {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::say(const std::string& text) const {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

bool colors_wanted() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

}  // namespace phasor::cli
