// SPDX-License-Identifier: Apache-2.0
// Tables of rotary specs that are refused, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phasor/rotary.hpp"
#include "spec/rotary.hpp"

namespace phasor::test {

struct BadSpec {
  RotarySpec spec;
  std::string message;
};

inline void expect_messages(const std::vector<BadSpec>& table) {
  for (const BadSpec& bad : table) {
    const Status status = spec::check(bad.spec);
    EXPECT_EQ(status.kind(), ErrorKind::invalid) << "wanted: " << bad.message;
    EXPECT_EQ(status.message(), "RotarySpec: " + bad.message);
  }
}

}  // namespace phasor::test
