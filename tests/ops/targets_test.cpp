// SPDX-License-Identifier: Apache-2.0
// Targets: their names, forcing one, and the environment variable that names one.
#include "phasor/targets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "phasor/additive.hpp"
#include "phasor/attention.hpp"
#include "phasor/learned.hpp"
#include "phasor/rotary.hpp"

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

/// Every call that chooses kernels, on tensors that fit: its name and what it answers.
struct Answer {
  std::string call;
  Status status;
};
std::vector<Answer> answers_of_every_call() {
  std::vector<float> x(64, 0.5F);
  std::vector<float> y(64, 0.25F);
  std::vector<float> row(8, 0.5F);
  const Extents shape = {1, 2, 1, 16};
  const TensorView q = view(x.data(), shape);
  const TensorView k = view(y.data(), shape);
  const TensorView cos = view(row.data(), {1, 1, 1, 8});
  const ConstTensorView cos_row = cos;
  const Rotary rotary = *Rotary::make({.head_dim = 16});
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 16});
  const std::vector<std::int64_t> slots = {0, 1};
  const AttentionInputs inputs{q, k, k};
  std::vector<float> lse(2, 0);
  const AttentionOutputs outputs{view(x.data() + 32, shape), view(lse.data(), {1, 2, 1, 1})};
  const AttentionGradients gradients{.q = view(y.data() + 32, shape)};
  const AttentionSaved saved{outputs.out, outputs.lse, k};
  std::vector<std::byte> workspace(1 << 22);
  const RotatedAt from{rotary, positions_from(0)};
  const RotatedAt to{rotary, positions_from(5)};
  return {{"apply", rotary.apply(q, positions_from(3))},
          {"apply of q and k", rotary.apply(q, k, positions_from(3))},
          {"cos_sin", rotary.cos_sin(positions_from(3), cos, view(y.data() + 32, {1, 1, 1, 8}))},
          {"apply_rotary", apply_rotary(view(x.data(), {1, 1, 1, 16}), cos_row, cos_row)},
          {"apply_rotary of q and k", apply_rotary(view(x.data(), {1, 1, 1, 16}), view(y.data(), {1, 1, 1, 16}), cos_row, cos_row)},
          {"rerotate", rerotate(q, from, to)},
          {"rerotate of slots", rerotate(q, slots, from, to)},
          {"fill", sinusoidal.fill(q, positions_from(3))},
          {"add", sinusoidal.add(q, positions_from(3))},
          {"lookup_add", lookup_add(q, ConstTensorView(view(y.data(), {1, 4, 1, 16})), positions_from(0))},
          {"attention", attention(inputs, {}, outputs, workspace)},
          {"attention_backward", attention_backward(inputs, {}, saved, gradients, workspace)}};
}

/// What active_target() says in this process, the name or the message; then a line for every call.
std::string answers_of_this_process() {
  const Result<std::string_view> active = active_target();
  std::string text = active.ok() ? std::string(*active) : active.status().message();
  for (const Answer& answer : answers_of_every_call()) {
    text += "\n" + answer.call + ": " + (answer.status.ok() ? "fine" : answer.status.message());
  }
  return text;
}

/// A process that starts with PHASOR_TARGET=value, and its answers. The library reads the variable once, so this must happen before
/// anything else uses it: in children forked before main (no exec: that would need an emulator's help). They do nothing until they are
/// asked: this program is started for each of its tests, and few want an answer.
class Child {
 public:
  explicit Child(const char* value) {
    int question[2];
    int answer[2];
    if (pipe(question) != 0 || pipe(answer) != 0) return;
    const pid_t child = fork();
    if (child == 0) {
      close(question[1]);
      char asked = 0;
      if (read(question[0], &asked, 1) != 1) _exit(0);  // the parent has ended
      setenv("PHASOR_TARGET", value, 1);
      const std::string text = answers_of_this_process();
      _exit(write(answer[1], text.data(), text.size()) < 0 ? 1 : 0);
    }
    close(question[0]);
    close(answer[1]);
    ask_ = question[1];
    answer_ = answer[0];
    pid_ = child;
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  /// Asks once.
  const std::string& answer() {
    if (pid_ < 0 || write(ask_, "?", 1) != 1) return text_;
    char buffer[256];
    for (ssize_t n = read(answer_, buffer, sizeof buffer); n > 0; n = read(answer_, buffer, sizeof buffer)) {
      text_.append(buffer, static_cast<std::size_t>(n));
    }
    end();
    return text_;
  }

 private:
  void end() {
    if (pid_ < 0) return;
    close(ask_);
    close(answer_);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  int ask_ = -1;
  int answer_ = -1;
  pid_t pid_ = -1;
  std::string text_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
constexpr std::size_t kCalls = 12;

Child with_scalar("scalar");
Child with_nothing("");
Child with_unknown("mmx");

TEST_F(Targets, the_environment_variable_names_the_default) {
  for (const auto& [text, target] :
       {std::pair{with_scalar.answer(), std::string("scalar")}, {with_nothing.answer(), std::string(targets().front())}}) {
    const std::vector<std::string> lines = lines_of(text);
    ASSERT_EQ(lines.size(), 1 + kCalls) << text;
    EXPECT_EQ(lines[0], target);
    for (std::size_t n = 1; n < lines.size(); ++n) EXPECT_TRUE(lines[n].ends_with(": fine")) << lines[n];
  }
}

TEST_F(Targets, an_unknown_name_in_the_environment_is_an_error_of_every_call) {
  const std::vector<std::string> lines = lines_of(with_unknown.answer());
  ASSERT_EQ(lines.size(), 1 + kCalls) << with_unknown.answer();
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("PHASOR_TARGET is 'mmx', wanted one of: "), std::string::npos) << line;
    for (const std::string_view name : targets()) EXPECT_NE(line.find(name), std::string::npos) << line;
  }
}

#endif  // !__EMSCRIPTEN__

}  // namespace
}  // namespace phasor::test
