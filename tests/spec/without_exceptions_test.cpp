// SPDX-License-Identifier: Apache-2.0
// The fence against exceptions: what is thrown inside comes out as a Status of the right kind.
#include "spec/without_exceptions.hpp"

#include <gtest/gtest.h>

namespace phasor::spec {
namespace {

template <class Error>
Status thrown(const Error& error) {
  return without_exceptions("read", [&]() -> Status { throw error; });
}

TEST(WithoutExceptions, what_is_given_comes_out) {
  EXPECT_EQ(*without_exceptions("read", [] { return Result<int>(7); }), 7);
  EXPECT_EQ(without_exceptions("read", [] { return Status::unsupported("this"); }).message(), "this");
  EXPECT_EQ(*without_exceptions([] { return Result<int>(7); }), 7);
}

TEST(WithoutExceptions, no_memory_and_more_than_a_container_holds_are_out_of_memory) {
  EXPECT_EQ(thrown(std::bad_alloc()).kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(thrown(std::length_error("vector")).kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(thrown(std::bad_alloc()).message(), "out of memory");
  EXPECT_EQ(without_exceptions([]() -> Status { throw std::length_error("vector"); }).kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(without_exceptions([]() -> Result<int> { throw std::bad_alloc(); }).status().kind(), ErrorKind::out_of_memory);
}

TEST(WithoutExceptions, any_other_exception_is_invalid_and_says_where) {
  EXPECT_EQ(thrown(std::runtime_error("bad \xff")).kind(), ErrorKind::invalid);
  EXPECT_EQ(thrown(std::runtime_error("bad \xff")).message(), "read: bad \\xff");
}

}  // namespace
}  // namespace phasor::spec
