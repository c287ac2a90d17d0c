// SPDX-License-Identifier: Apache-2.0
// What a call works in: memory that is not enough is said to the byte and nothing is written, and blocks that are asked for give the same
// bits as one piece.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

/// One call with all that it writes; the workspace is the test's.
struct Attempt {
  explicit Attempt(const ref::Problem& p) : bridge(p, DType::f32) {
    const ref::Shape& s = bridge.problem.shape;
    weights.assign(static_cast<std::size_t>(s.batch * s.queries * s.heads * s.keys), -7);
    to = {view(weights.data(), {s.batch, s.queries, s.heads, s.keys})};
    EXPECT_TRUE(bridge.forward().ok());
    saved = {bridge.outputs.out, bridge.outputs.lse, bridge.outputs.out};
  }

  struct Call {
    const char* name;
    std::function<Result<std::int64_t>()> bytes;
    std::function<Status(const Workspace&)> run;
  };
  std::vector<Call> calls() {
    return {{"attention", [this] { return attention_workspace(bridge.inputs, bridge.spec); },
             [this](const Workspace& w) { return attention(bridge.inputs, bridge.spec, bridge.outputs, w); }},
            {"attention_backward", [this] { return attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients); },
             [this](const Workspace& w) { return attention_backward(bridge.inputs, bridge.spec, saved, bridge.gradients, w); }},
            {"attention_weights", [this] { return attention_weights_workspace(bridge.inputs, bridge.spec, {}, to); },
             [this](const Workspace& w) { return attention_weights(bridge.inputs, bridge.spec, {}, to, w); }}};
  }
  /// Everything that calls write, and gradients of terms.
  std::vector<ref::Values> results() {
    ref::Gradients g = bridge.reference_gradients();
    std::vector<ref::Values> all = {bridge.output().out, bridge.output().lse, ref::Values(weights.begin(), weights.end()), g.q, g.k, g.v};
    for (ref::Scheme& scheme : g.schemes) {
      for (const ref::Parameter& one : parameters_of(scheme)) all.emplace_back(one.values.begin(), one.values.end());
    }
    return all;
  }

  Bridge bridge;
  std::vector<float> weights;
  AttentionWeights to;
  AttentionSaved saved;
};

/// Gives blocks, none of them aligned, as often as it may.
struct Giver {
  explicit Giver(int times = 1000) : left(times) {}
  std::span<std::byte> operator()(std::int64_t bytes) {
    asked.push_back(bytes);
    if (left-- == 0) return {};
    return std::span(blocks.emplace_back(static_cast<std::size_t>(bytes) + 1, std::byte{0xff})).subspan(1);
  }
  std::deque<std::vector<std::byte>> blocks;
  std::vector<std::int64_t> asked;
  int left;
};

std::vector<ref::Problem> problems() {
  const ref::Shape shape = {.batch = 2, .queries = 8, .keys = 8, .heads = 2, .key_heads = 1, .width = 8, .value_width = 4};
  std::vector<ref::Problem> list;
  for (const NamedScheme& one : every_scheme(shape, 5)) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    if (xpos != nullptr && xpos->keys_rotated) continue;  // the library does not have it
    list.push_back(random_problem(shape, 6));
    list.back().schemes = {one.scheme};
    list.back().visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
  }
  return list;
}

TEST(attention_given_workspace, that_is_too_small_is_said_to_the_byte_and_nothing_is_written) {
  for (const ref::Problem& p : problems()) {
    Attempt attempt(p);
    const std::vector<ref::Values> before = attempt.results();
    for (const Attempt::Call& call : attempt.calls()) {
      const std::int64_t bytes = *call.bytes();
      std::vector<std::byte> memory(static_cast<std::size_t>(bytes), std::byte{0xff});
      for (const std::int64_t some : {std::int64_t{0}, std::int64_t{1}, bytes / 7, bytes / 3, bytes - 65, bytes - 1}) {
        const Status status = call.run(std::span(memory).first(static_cast<std::size_t>(some)));
        EXPECT_EQ(status.message(),
                  std::string(call.name) + ": the workspace has " + std::to_string(some) + " bytes, wanted " + std::to_string(bytes));
      }
      EXPECT_EQ(attempt.results(), before) << call.name;
    }
  }
}

TEST(attention_given_workspace, of_blocks_gives_the_bits_of_one_piece) {
  for (const ref::Problem& p : problems()) {
    Attempt whole(p);
    Attempt parts(p);
    const auto whole_calls = whole.calls();
    const auto parts_calls = parts.calls();
    for (std::size_t n = 0; n < whole_calls.size(); ++n) {
      std::vector<std::byte> memory(static_cast<std::size_t>(*whole_calls[n].bytes()), std::byte{0xff});
      EXPECT_TRUE(whole_calls[n].run(memory).ok());
      Giver giver;
      std::vector<std::byte> some(n * 300, std::byte{0xff});
      EXPECT_TRUE(parts_calls[n].run({some, std::ref(giver)}).ok());
      EXPECT_GE(giver.asked.size(), 1U);
    }
    EXPECT_EQ(whole.results(), parts.results());
  }
}

TEST(attention_given_workspace, that_has_no_more_to_give_is_out_of_memory_and_nothing_is_written) {
  // Wide enough for several blocks.
  const ref::Problem wide = random_problem({.batch = 1, .queries = 200, .keys = 200, .heads = 1, .width = 64, .value_width = 64}, 3);
  for (const int times : {0, 1}) {
    Attempt attempt(wide);
    const std::vector<ref::Values> before = attempt.results();
    for (const Attempt::Call& call : attempt.calls()) {
      if (times == 1 && *call.bytes() <= 1 << 20) continue;
      Giver giver(times);
      EXPECT_EQ(call.run({{}, std::ref(giver)}).kind(), ErrorKind::out_of_memory) << call.name;
      EXPECT_EQ(static_cast<int>(giver.asked.size()), times + 1) << call.name;  // it is not asked again
      EXPECT_EQ(attempt.results(), before) << call.name;
    }
  }
}

TEST(attention_given_workspace, is_not_asked_for_more_where_there_is_enough) {
  Attempt attempt(problems().front());
  for (const Attempt::Call& call : attempt.calls()) {
    std::vector<std::byte> memory(static_cast<std::size_t>(*call.bytes()), std::byte{0xff});
    Giver giver;
    EXPECT_TRUE(call.run({memory, std::ref(giver)}).ok());
    EXPECT_TRUE(giver.asked.empty()) << call.name;
  }
}

}  // namespace
}  // namespace phasor::test
