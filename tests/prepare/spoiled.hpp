// SPDX-License-Identifier: Apache-2.0
// Calls that are right but for one thing: each is refused with words, and nothing is written.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "phasor/prepare.hpp"

namespace phasor::test {

template <class Attempt>
struct Spoiled {
  const char* wanted;  // a fragment of the message
  std::function<void(Attempt&)> spoil;
};

/// An Attempt is a call that is right: run() makes it, held() is all of its memory, kBegins what its messages begin with.
template <class Attempt>
void expect_refused(const std::vector<Spoiled<Attempt>>& cases, ErrorKind kind = ErrorKind::invalid) {
  Attempt right;
  const Status sound = right.run();
  ASSERT_TRUE(sound.ok()) << sound.message();
  EXPECT_NE(right.held(), Attempt().held());
  for (const Spoiled<Attempt>& c : cases) {
    SCOPED_TRACE(c.wanted);
    Attempt call;
    c.spoil(call);
    const auto before = call.held();
    const Status status = call.run();
    EXPECT_EQ(status.kind(), kind);
    EXPECT_EQ(status.message().find(Attempt::kBegins), 0U) << status.message();
    EXPECT_NE(status.message().find(c.wanted), std::string::npos) << status.message();
    EXPECT_EQ(call.held(), before);
  }
}

}  // namespace phasor::test
