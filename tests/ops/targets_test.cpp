// SPDX-License-Identifier: Apache-2.0
// Targets: their names, forcing one, and the environment variable that names one.
#include "phasor/targets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#if !defined(__EMSCRIPTEN__)  // WebAssembly has no processes
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace phasor::test {
namespace {

class Targets : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(force_target("").ok()); }
};

TEST_F(Targets, are_known_names_without_repetition_ending_in_scalar) {
  const std::vector<std::string_view> names = targets();
  const std::set<std::string_view> known = {"avx512", "avx2", "neon", "wasm_simd", "scalar"};
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "scalar");
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  for (const std::string_view name : names) EXPECT_EQ(known.count(name), 1U) << name;
}

TEST_F(Targets, of_this_architecture_include_its_baseline) {
  [[maybe_unused]] const std::vector<std::string_view> names = targets();
#if defined(__aarch64__)
  EXPECT_EQ(names.front(), "neon");
#elif defined(__wasm_simd128__)
  EXPECT_EQ(names.front(), "wasm_simd");
#elif defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  EXPECT_EQ(std::count(names.begin(), names.end(), "avx2"), avx2 ? 1 : 0);
#endif
}

TEST_F(Targets, each_of_them_can_be_forced_and_given_up) {
  const std::string before(*active_target());
  for (const std::string_view name : targets()) {
    ASSERT_TRUE(force_target(name).ok());
    EXPECT_EQ(*active_target(), name);
  }
  ASSERT_TRUE(force_target("").ok());
  EXPECT_EQ(*active_target(), before);
}

TEST_F(Targets, an_unknown_name_is_an_error_that_lists_the_names_and_changes_nothing) {
  ASSERT_TRUE(force_target("scalar").ok());
  for (const std::string_view wrong : {"sse9", "SCALAR", "scalar ", " ", "avx"}) {
    const Status status = force_target(wrong);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("force_target: target is '" + std::string(wrong) + "', wanted one of: "), std::string::npos)
        << status.message();
    for (const std::string_view name : targets()) EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
    EXPECT_EQ(*active_target(), "scalar");
  }
}

TEST_F(Targets, the_version_is_three_numbers) {
  const std::string text(version());
  EXPECT_EQ(std::count(text.begin(), text.end(), '.'), 2);
  EXPECT_EQ(text.find_first_not_of("0123456789."), std::string::npos) << text;
}

#if !defined(__EMSCRIPTEN__)

/// What active_target() says in a process that starts with PHASOR_TARGET=value: the name or the message. The library reads the variable
/// once, so this must happen before anything else uses it: in children forked before main (no exec: that would need an emulator's help).
std::string in_a_child(const char* value) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    setenv("PHASOR_TARGET", value, 1);
    const Result<std::string_view> active = active_target();
    const std::string text = active.ok() ? std::string(*active) : active.status().message();
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t n = read(ends[0], buffer, sizeof buffer); n > 0; n = read(ends[0], buffer, sizeof buffer)) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

const std::string with_scalar = in_a_child("scalar");
const std::string with_nothing = in_a_child("");
const std::string with_unknown = in_a_child("mmx");

TEST_F(Targets, the_environment_variable_names_the_default) {
  EXPECT_EQ(with_scalar, "scalar");
  EXPECT_EQ(with_nothing, targets().front());
}

TEST_F(Targets, an_unknown_name_in_the_environment_is_an_error_of_every_call) {
  EXPECT_EQ(with_unknown.find("PHASOR_TARGET is 'mmx', wanted one of: "), 0U) << with_unknown;
  for (const std::string_view name : targets()) EXPECT_NE(with_unknown.find(name), std::string::npos) << with_unknown;
}

#endif  // !__EMSCRIPTEN__

}  // namespace
}  // namespace phasor::test
