// SPDX-License-Identifier: Apache-2.0
// How long work says where it is: one line on standard error.
#pragma once

#include <string>

namespace phasor::cli {

/// One line on a terminal, rewritten at each step and gone at the end; silent anywhere else.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { say(""); }

  void say(const std::string& text) const;

 private:
  bool terminal_ = false;
};

/// Whether standard output is a terminal that wants colour (NO_COLOR is not set).
bool colors_wanted();

}  // namespace phasor::cli
