// SPDX-License-Identifier: Apache-2.0
// Every public operation goes through the table of backends, by the device of its memory, and every piece of memory of a call is on one
// device. A second backend, made here, records what it is asked.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/memory.hpp"
#include "cuda/run.hpp"
#include "phasor/targets.hpp"

namespace phasor::test {
namespace {

using backend::Backend;

/// What the recording backend was asked, and whom it asks in turn; null: nobody, and nothing is done.
std::vector<std::string> asked;
const Backend* next = nullptr;

/// One function for each operation: notes the name, then goes on.
#define PHASOR_RECORD(operation)                                         \
  [](auto& job, const Execution& execution) -> Status {                  \
    asked.emplace_back(#operation);                                      \
    return next == nullptr ? Status() : next->operation(job, execution); \
  }

/// The same of those that work in given memory, and of those that only tell.
#define PHASOR_RECORD_IN(operation)                                                 \
  [](auto& job, const Workspace& workspace, const Execution& execution) -> Status { \
    asked.emplace_back(#operation);                                                 \
    return next == nullptr ? Status() : next->operation(job, workspace, execution); \
  }
#define PHASOR_RECORD_ASKED(operation, nothing)                      \
  [](const auto& job) {                                              \
    asked.emplace_back(#operation);                                  \
    return next == nullptr ? Result(nothing) : next->operation(job); \
  }

Backend recording_backend() {
  Backend b = {};
  b.name = "recording";
  b.rotate = PHASOR_RECORD(rotate);
  b.rotate_specs = PHASOR_RECORD(rotate_specs);
  b.rerotate = PHASOR_RECORD(rerotate);
  b.rows = PHASOR_RECORD(rows);
  b.add = PHASOR_RECORD(add);
  b.lookup = PHASOR_RECORD(lookup);
  b.scatter = PHASOR_RECORD(scatter);
  b.phase_gradient = PHASOR_RECORD(phase_gradient);
  b.frequency_gradient = PHASOR_RECORD(frequency_gradient);
  b.position_gradient = PHASOR_RECORD(position_gradient);
  b.bias_diagonal = PHASOR_RECORD(bias_diagonal);
  b.bias_gradient = PHASOR_RECORD(bias_gradient);
  b.bias_fill = PHASOR_RECORD(bias_fill);
  b.prepare = PHASOR_RECORD(prepare);
  b.prepare_backward = PHASOR_RECORD(prepare_backward);
  b.build_positions = PHASOR_RECORD(build_positions);
  b.temperature = PHASOR_RECORD(temperature);
  b.attention_workspace = PHASOR_RECORD_ASKED(attention_workspace, std::int64_t{0});
  b.attention = PHASOR_RECORD_IN(attention);
  b.attention_backward_workspace = PHASOR_RECORD_ASKED(attention_backward_workspace, std::int64_t{0});
  b.attention_backward = PHASOR_RECORD_IN(attention_backward);
  b.attention_weights_workspace = PHASOR_RECORD_ASKED(attention_weights_workspace, std::int64_t{0});
  b.attention_weights = PHASOR_RECORD_IN(attention_weights);
  b.cached_attention_workspace = PHASOR_RECORD_ASKED(cached_attention_workspace, std::int64_t{0});
  b.cached_attention = PHASOR_RECORD_IN(cached_attention);
  b.merge = PHASOR_RECORD(merge);
  b.explain_attention = PHASOR_RECORD_ASKED(explain_attention, AttentionReport{});
  return b;
}

/// Every operation of the public headers that takes tensors: what it is called, whom it must ask, the call.
struct Operation {
  const char* name;
  std::vector<std::string> asks;
  std::function<Status(Memory&)> call;
};

const Extents kTokens = {1, 3, 1, 16};

Rotary rotary() { return *Rotary::make({.head_dim = 16}); }
Bias alibi() { return *Bias::make(Alibi{.heads = 2}); }

AttentionInputs inputs_of(Memory& m) { return {m.tensor(kTokens), m.tensor(kTokens), m.tensor(kTokens)}; }
AttentionOutputs outputs_of(Memory& m) { return {m.tensor(kTokens), m.tensor({1, 3, 1, 1})}; }

/// One sequence of two pages.
CachedInputs cached_of(Memory& m) {
  return {m.tensor(kTokens),
          tensor_cache(m.tensor({3, 4, 1, 16})),
          tensor_cache(m.tensor({3, 4, 1, 16})),
          {.blocks = m.integers({2, 0}), .lengths = m.integers({7}), .page_size = 4}};
}

/// Everything that a call may have, each piece from the same memory.
Status prepare(Memory& m) {
  const Rotary rope = rotary();
  PrepareInputs inputs = {m.tensor(kTokens), m.tensor(kTokens), m.tensor(kTokens), m.tensor({1, 3, 1, 1})};
  const PrepareRotation rotation = {{&rope, 1}, m.at(5, 3), {}};
  PrepareOutputs outputs = {
      tensor_cache(m.tensor(kTokens)), tensor_cache(m.tensor({2, 4, 1, 16})), tensor_cache(m.tensor({2, 4, 1, 16})), {}};
  const Slots slots = m.slots({6, 1, 3});
  outputs.places.kind = TokenPlaces::Kind::slots;
  outputs.places.slots = {slots.data, PositionType::i64, slots.size, slots.device};
  PrepareSpec spec;
  spec.q_norm.kind = HeadNorm::Kind::rms;
  spec.q_norm.weight = m.tensor({1, 1, 1, 16});
  return prepare_attention(inputs, rotation, outputs, spec);
}

Status prepare_backward(Memory& m) {
  const Rotary rope = rotary();
  const PrepareInputs inputs = {m.tensor(kTokens), m.tensor(kTokens), m.tensor(kTokens), m.tensor({1, 3, 1, 1})};
  const PrepareRotation rotation = {{&rope, 1}, m.at(5, 3), {}};
  PrepareGradients gradients;
  for (PrepareGradient* const side : {&gradients.q, &gradients.k, &gradients.v}) {
    side->by_output = m.tensor(kTokens);
    side->by_input = m.tensor(kTokens);
  }
  gradients.q.by_weight = m.tensor({1, 1, 1, 16});
  gradients.workspace = m.sums(25);
  PrepareSpec spec;
  spec.q_norm = {.kind = HeadNorm::Kind::rms, .over = HeadNorm::Over::all_heads, .weight = m.tensor({1, 1, 1, 16})};
  return prepare_attention_backward(inputs, rotation, gradients, spec);
}

std::vector<Operation> rotations() {
  return {
      {"apply", {"rotate"}, [](Memory& m) { return rotary().apply(m.tensor(kTokens), m.at(5, 3)); }},
      {"apply q and k", {"rotate"}, [](Memory& m) { return rotary().apply(m.tensor(kTokens), m.tensor(kTokens), m.at(5, 3)); }},
      {"apply by tables",
       {"rotate"},
       [](Memory& m) { return apply_rotary(m.tensor(kTokens), m.tensor({1, 3, 1, 8}), m.tensor({1, 3, 1, 8})); }},
      {"apply_rotaries",
       {"rotate_specs"},
       [](Memory& m) {
         const std::vector<Rotary> rotaries(2, rotary());
         const Slots of = m.slots({1, 0, 1});
         const RotaryList list = {rotaries, {of.data, PositionType::i64, of.size, of.device}};
         return apply_rotaries(list, m.tensor(kTokens), m.tensor(kTokens), m.at(5, 3));
       }},
      {"cos_sin", {"rows"}, [](Memory& m) { return rotary().cos_sin(m.at(5, 3), m.tensor({1, 3, 1, 8}), m.tensor({1, 3, 1, 8})); }},
      {"rerotate", {"rerotate"}, [](Memory& m) { return rerotate(m.tensor(kTokens), {rotary(), m.at(5, 3)}, {rotary(), m.at(9, 3)}); }},
      {"rerotate slots",
       {"rerotate"},
       [](Memory& m) { return rerotate(m.tensor({2, 4, 1, 16}), m.slots({6, 1, 3}), {rotary(), m.at(5, 3)}, {rotary(), m.at(9, 3)}); }},
      {"prepare_attention", {"prepare"}, prepare},
      {"prepare_attention_backward", {"prepare_backward"}, prepare_backward},
      {"phase_gradient",
       {"phase_gradient"},
       [](Memory& m) { return phase_gradient(m.tensor({1, 3, 1, 8}), m.tensor(kTokens), m.tensor(kTokens)); }},
      {"frequency_gradient",
       {"frequency_gradient"},
       [](Memory& m) { return rotary().frequency_gradient(m.sums(8), m.tensor({1, 3, 1, 8}), m.at(5, 3)); }},
      {"position_gradient",
       {"position_gradient"},
       [](Memory& m) { return rotary().position_gradient(m.doubles(1, 3), m.tensor({1, 3, 1, 8})); }},
  };
}

std::vector<Operation> additions() {
  const auto sinusoidal = [] { return *Sinusoidal::make({.width = 16}); };
  return {
      {"fill", {"add"}, [=](Memory& m) { return sinusoidal().fill(m.tensor(kTokens), m.at(5, 3)); }},
      {"add", {"add"}, [=](Memory& m) { return sinusoidal().add(m.tensor(kTokens), m.at(5, 3)); }},
      {"lookup_add", {"lookup"}, [](Memory& m) { return lookup_add(m.tensor(kTokens), m.tensor({1, 9, 1, 16}), m.at(5, 3)); }},
      {"scatter_gradient", {"scatter"}, [](Memory& m) { return scatter_gradient(m.tensor({1, 9, 1, 16}), m.tensor(kTokens), m.at(5, 3)); }},
      {"diagonal", {"bias_diagonal"}, [](Memory& m) { return alibi().diagonal(m.tensor({1, 2, 1, 7}), -3); }},
      {"bias gradient",
       {"bias_gradient"},
       [](Memory& m) { return Bias::make(T5Buckets{.heads = 1})->gradient(m.sums(32), m.tensor({1, 1, 1, 7}), -3); }},
      {"bias fill", {"bias_fill"}, [](Memory& m) { return alibi().fill(m.tensor({1, 2, 3, 3}), m.at(5, 3), m.at(5, 3)); }},
  };
}

std::vector<Operation> builders() {
  return {
      {"fill_from_offset", {"build_positions"}, [](Memory& m) { return fill_from_offset(m.doubles(1, 3), 5); }},
      {"fill_from_offsets", {"build_positions"}, [](Memory& m) { return fill_from_offsets(m.doubles(1, 3), m.integers({7})); }},
      {"fill_from_cu_seqlens",
       {"build_positions"},
       [](Memory& m) {
         return fill_from_cu_seqlens(m.doubles(1, 3), {.cu_seqlens = m.integers({0, 1, 3}), .offsets = m.integers({4, 9})});
       }},
      {"fill_slots",
       {"build_positions"},
       [](Memory& m) {
         const PageTable table = {.blocks = m.integers({6, 1, 3}), .lengths = m.integers({9}), .page_size = 4};
         return fill_slots(m.doubles(1, 3), table, m.at(5, 3), m.integers({0, 3}));
       }},
      {"fill_temperature",
       {"temperature"},
       [](Memory& m) {
         return fill_temperature(m.tensor({1, 3, 1, 1}), {.kind = QueryTemperature::Kind::log_n, .length = 6}, m.at(5, 3));
       }},
  };
}

std::vector<Operation> attentions() {
  return {
      {"attention_workspace", {"attention_workspace"}, [](Memory& m) { return attention_workspace(inputs_of(m), {}).status(); }},
      {"attention",
       {"attention"},
       [](Memory& m) {
         std::vector<std::byte> workspace(1 << 20);
         return attention(inputs_of(m), {.query_positions = m.at(5, 3), .key_positions = m.at(5, 3)}, outputs_of(m), workspace);
       }},
      {"attention_backward_workspace",
       {"attention_backward_workspace"},
       [](Memory& m) { return attention_backward_workspace(inputs_of(m), {}, {.q = m.tensor(kTokens)}).status(); }},
      {"attention_backward",
       {"attention_backward"},
       [](Memory& m) {
         const AttentionSaved saved = {m.tensor(kTokens), m.tensor({1, 3, 1, 1}), m.tensor(kTokens)};
         std::vector<std::byte> workspace(1 << 20);
         return attention_backward(inputs_of(m), {}, saved, {.q = m.tensor(kTokens)}, workspace);
       }},
      {"attention_weights_workspace",
       {"attention_weights_workspace"},
       [](Memory& m) { return attention_weights_workspace(inputs_of(m), {}, {}, {m.tensor({1, 3, 1, 3})}).status(); }},
      {"attention_weights",
       {"attention_weights"},
       [](Memory& m) {
         std::vector<std::byte> workspace(1 << 20);
         return attention_weights(inputs_of(m), {}, {}, {m.tensor({1, 2, 1, 3}), m.tensor({1, 2, 1, 3})}, workspace);
       }},
      {"cached_attention_workspace",
       {"cached_attention_workspace"},
       [](Memory& m) { return cached_attention_workspace(cached_of(m), {}).status(); }},
      {"cached_attention",
       {"cached_attention"},
       [](Memory& m) {
         std::vector<std::byte> workspace(1 << 20);
         return cached_attention(cached_of(m), {}, outputs_of(m), workspace);
       }},
      {"merge_attention",
       {"merge"},
       [](Memory& m) {
         const AttentionPart parts[] = {{m.tensor(kTokens), m.tensor({1, 3, 1, 1})}, {m.tensor(kTokens), m.tensor({1, 3, 1, 1})}};
         return merge_attention(parts, outputs_of(m));
       }},
      {"explain_attention", {"explain_attention"}, [](Memory& m) { return explain_attention(inputs_of(m), {}).status(); }},
  };
}

std::vector<Operation> operations() {
  std::vector<Operation> all = rotations();
  for (const auto& more : {additions(), builders(), attentions()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// The recording backend in the place of a kind's, while it lives.
class Watched : public ::testing::Test {
 protected:
  void watch(DeviceKind kind, bool goes_on) {
    kind_ = kind;
    before_ = backend::replace(kind, &recorder_);
    next = goes_on ? before_ : nullptr;
    watching_ = true;
    asked.clear();
  }
  void TearDown() override {
    if (watching_) backend::replace(kind_, before_);
    next = nullptr;
  }

 private:
  const Backend recorder_ = recording_backend();
  const Backend* before_ = nullptr;
  DeviceKind kind_ = DeviceKind::cpu;
  bool watching_ = false;
};

TEST_F(Watched, every_operation_asks_the_backend_of_its_memory_and_nobody_else) {
  watch(DeviceKind::cuda, false);
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    Memory memory({DeviceKind::cuda, 0});
    asked.clear();
    const Status status = operation.call(memory);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(asked, operation.asks);
    EXPECT_TRUE(memory.is_untouched()) << "written around the backend, which did nothing";
  }
}

TEST_F(Watched, a_build_says_which_devices_it_has_kernels_for) {
  EXPECT_TRUE(has_backend(DeviceKind::cpu));
  EXPECT_EQ(has_backend(DeviceKind::cuda), cuda::is_built());
  watch(DeviceKind::cuda, false);
  EXPECT_TRUE(has_backend(DeviceKind::cuda));
}

/// What shapes and fields tell needs no backend, and is told before one is asked.
TEST_F(Watched, a_wrong_call_of_attention_is_refused_before_any_backend_is_asked) {
  watch(DeviceKind::cuda, false);
  Memory memory({DeviceKind::cuda, 0});
  const AttentionInputs inputs = inputs_of(memory);
  const AttentionOutputs outputs = outputs_of(memory);
  const AttentionSpec capped = {.softcap = -1};
  const AttentionSpec narrow = {.terms = {DenseTerm{memory.tensor({1, 3, 1, 2})}}};
  const AttentionSaved saved = {outputs.out, outputs.lse, outputs.out};
  std::vector<std::byte> workspace(1 << 20);
  asked.clear();
  EXPECT_EQ(attention(inputs, capped, outputs, workspace).message(), "attention: softcap is -1, wanted 0 (none) or a finite number above");
  EXPECT_EQ(attention_workspace(inputs, narrow).status().message(), "attention: terms[0]: bias has 2 on its last axis, wanted 3 or 1");
  EXPECT_EQ(attention(inputs, {}, {outputs.out, outputs.out}, workspace).message(),
            "attention: lse has shape (1, 3, 1, 16), wanted (1, 3, 1, 1)");
  EXPECT_EQ(attention_backward(inputs, {}, saved, {.q = outputs.out}, workspace).message(),
            "attention_backward: gradients.q overlaps saved.out, wanted memory apart");
  EXPECT_EQ(attention_weights(inputs, {}, {.query = 2}, {memory.tensor({1, 2, 1, 3})}, workspace).message(),
            "attention_weights: weights has 2 queries from 2 on, q has 3, wanted some of those");
  EXPECT_EQ(merge_attention({}, outputs).message(), "merge_attention: no parts are given, wanted one at least");
  const AttentionPart part = {outputs.out, outputs.out};
  EXPECT_EQ(merge_attention({&part, 1}, {outputs.out, outputs.out}).message(),
            "merge_attention: lse has shape (1, 3, 1, 16), wanted (1, 3, 1, 1)");
  EXPECT_FALSE(explain_attention(inputs, capped).ok());
  EXPECT_TRUE(asked.empty());
}

TEST_F(Watched, a_backend_that_forwards_changes_no_result) {
  const std::vector<Operation> all = operations();
  std::deque<Memory> direct;
  for (const Operation& operation : all) EXPECT_TRUE(operation.call(direct.emplace_back(Device{})).ok()) << operation.name;
  watch(DeviceKind::cpu, true);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    asked.clear();
    Memory memory(Device{});
    EXPECT_TRUE(all[i].call(memory).ok());
    EXPECT_EQ(asked, all[i].asks);
    EXPECT_TRUE(memory == direct[i]);
    seen.insert(asked.begin(), asked.end());
  }
  // As many as the table has functions, so that a new one is not forgotten here.
  EXPECT_EQ(seen.size(), sizeof(Backend) / sizeof(void*) - 1);
}

TEST(Devices, without_a_backend_are_an_error_that_names_them_and_writes_nothing) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    Memory memory({DeviceKind::cuda, 3});
    const Status status = operation.call(memory);
    EXPECT_EQ(status.kind(), ErrorKind::unsupported);
    EXPECT_NE(status.message().find("cuda:3"), std::string::npos) << status.message();
    EXPECT_TRUE(memory.is_untouched());
  }
}

TEST(Devices, are_one_in_a_call_whichever_piece_of_memory_is_elsewhere) {
  for (const Operation& operation : operations()) {
    Memory whole(Device{});
    ASSERT_TRUE(operation.call(whole).ok());
    for (int odd = 0; odd < whole.pieces(); ++odd) {
      SCOPED_TRACE(std::string(operation.name) + ", piece " + std::to_string(odd));
      Memory memory(Device{}, odd);
      const Status status = operation.call(memory);
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find("cuda:1"), std::string::npos) << status.message();
      EXPECT_TRUE(memory.is_untouched());
    }
  }
}

TEST(Devices, of_an_unknown_kind_are_refused) {
  Memory memory({static_cast<DeviceKind>(7), 0});
  const Status status = operations().front().call(memory);
  EXPECT_EQ(status.kind(), ErrorKind::invalid);
  EXPECT_NE(status.message().find("unknown kind of device (7)"), std::string::npos) << status.message();
}

TEST(Devices, other_than_the_cpu_do_not_draw_positions) {
  std::vector<std::int64_t> list(4, -1);
  PositionsView out = positions(list.data(), 4);
  out.device = {DeviceKind::cuda, 2};
  const Status status = fill_random(out, {.length = 9});
  EXPECT_NE(status.message().find("cuda:2"), std::string::npos) << status.message();
  EXPECT_EQ(list, std::vector<std::int64_t>(4, -1));
}

}  // namespace
}  // namespace phasor::test
