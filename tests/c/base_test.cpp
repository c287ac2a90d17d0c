// SPDX-License-Identifier: Apache-2.0
// Errors, texts and targets in C.
#include "c/support.hpp"
#include "core/call.hpp"
#include "phasor/phasor.h"
#include "phasor/targets.hpp"

namespace phasor::test {
namespace {

TEST(CBase, names_of_targets_are_texts_of_the_callers) {
  std::string want;
  for (const std::string_view name : targets()) want += (want.empty() ? "" : "\n") + std::string(name);
  EXPECT_EQ(text_by([](phasor_text* text, phasor_error* error) { return phasor_targets(text, error); }), want);
  EXPECT_EQ(phasor_version(), version());
  EXPECT_EQ(phasor_has_backend(1), 1);
  EXPECT_EQ(phasor_has_backend(2), has_backend(DeviceKind::cuda) ? 1 : 0);
  EXPECT_EQ(phasor_has_backend(0), 1);
  EXPECT_EQ(phasor_has_backend(3), 1);  // the CPU's memory, pinned for CUDA
  EXPECT_EQ(phasor_has_backend(13), phasor_has_backend(2));
  EXPECT_EQ(phasor_has_backend(4), 0);
}

TEST(CBase, a_target_is_forced_and_given_back) {
  succeeds([](phasor_error* error) { return phasor_force_target("scalar", error); });
  EXPECT_EQ(text_by([](phasor_text* text, phasor_error* error) { return phasor_active_target(text, error); }), "scalar");
  EXPECT_NE(failure(PHASOR_UNSUPPORTED, [](phasor_error* error) { return phasor_force_target("sse9", error); }), "");
  succeeds([](phasor_error* error) { return phasor_force_target("", error); });
}

TEST(CBase, a_text_that_does_not_fit_is_not_begun) {
  char data[4] = {'a', 'b', 'c', 'd'};
  phasor_text text = {data, sizeof data, 0};
  EXPECT_EQ(failure(PHASOR_TOO_SMALL, [&](phasor_error* error) { return c::call(error, [&] { c::give("f", "four", &text); }); }),
            "f: the buffer has room for 4 bytes, wanted 5");
  EXPECT_EQ(text.length, 4U);
  EXPECT_EQ(std::string(data, 4), "abcd");
}

TEST(CBase, a_long_message_is_cut_between_characters) {
  std::string message(506, 'x');
  message += "\xc3\xa9 and more";  // its first byte would be the last that fits
  phasor_error error = {};
  EXPECT_EQ(c::failed(&error, PHASOR_INVALID, message), PHASOR_INVALID);
  EXPECT_EQ(std::string(error.message), std::string(506, 'x'));
}

TEST(CBase, whatever_is_thrown_becomes_a_status) {
  phasor_error error = {};
  EXPECT_EQ(c::call(&error, [] { throw std::bad_alloc(); }), PHASOR_OUT_OF_MEMORY);
  EXPECT_EQ(c::call(&error, [] { throw std::out_of_range("beyond"); }), PHASOR_INVALID);
  EXPECT_EQ(std::string(error.message), "beyond");
  EXPECT_EQ(c::call(&error, [] { throw std::length_error("vector"); }), PHASOR_OUT_OF_MEMORY);
  EXPECT_EQ(c::call(&error, [] { throw 7; }), PHASOR_INVALID);
  EXPECT_EQ(std::string(error.message), "a callback threw");
}

}  // namespace
}  // namespace phasor::test
