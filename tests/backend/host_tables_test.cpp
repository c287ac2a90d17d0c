// SPDX-License-Identifier: Apache-2.0
// A job as a device sees it: bytes, whose host tables it copied to memory of its own. The backend here does that for every job, puts the
// copies in place of the tables, spoils the originals, and lets the CPU run what is left: the same bits, and no pointer to anything else.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/elsewhere.hpp"

// ---- What a job may not hold. Not in a nameless namespace: there clang finds lists of members that nobody calls ----

namespace phasor::test::jobs {

using backend::PlainData;

struct WithVector {
  std::vector<double> table;
};
PHASOR_MEMBERS(WithVector, table)
struct WithFunction {
  std::function<void()> done;
};
PHASOR_MEMBERS(WithFunction, done)
struct WithFunctionPointer {
  void (*done)();
};
PHASOR_MEMBERS(WithFunctionPointer, done)
struct WithVariant {
  std::variant<int, double> number;  // trivially copyable
};
PHASOR_MEMBERS(WithVariant, number)
struct WithOptional {
  std::optional<int> number;
};
PHASOR_MEMBERS(WithOptional, number)
struct WithSpan {
  std::span<double> sum;
};
PHASOR_MEMBERS(WithSpan, sum)
struct WithString {
  const std::string* name;
};
PHASOR_MEMBERS(WithString, name)
struct WithPlan {
  const plan::RotaryPlan* plan;
};
PHASOR_MEMBERS(WithPlan, plan)
struct WithBiasPlan {
  Device device;
  const plan::BiasPlan* plan;
};
PHASOR_MEMBERS(WithBiasPlan, device, plan)
struct WithPointerToPointers {
  const double* const* rows;
};
PHASOR_MEMBERS(WithPointerToPointers, rows)
struct WithReference {
  double& sum;
};
PHASOR_MEMBERS(WithReference, sum)
struct Inside {
  WithPlan plan;
};
PHASOR_MEMBERS(Inside, plan)
struct Unlisted {
  double number;
};
struct Virtual {
  virtual ~Virtual() = default;
};
struct Plain {
  Device device;
  const double* table;
  double numbers[3];
  const Plain* next;
  TensorView out;
};
PHASOR_MEMBERS(Plain, device, table, numbers, next, out)

static_assert(PlainData<Plain>);
static_assert(!PlainData<WithVector> && !PlainData<WithFunction> && !PlainData<WithFunctionPointer>);
static_assert(!PlainData<WithVariant> && !PlainData<WithOptional> && !PlainData<WithSpan> && !PlainData<WithString>);
static_assert(!PlainData<WithPlan> && !PlainData<WithBiasPlan> && !PlainData<Inside>);
static_assert(!PlainData<WithPointerToPointers> && !PlainData<WithReference>);
static_assert(!PlainData<Unlisted> && !PlainData<Virtual> && !PlainData<plan::RotaryPlan> && !PlainData<plan::BiasPlan>);

}  // namespace phasor::test::jobs

namespace phasor::test {
namespace {

// ---- Jobs of every kind of table ----

TEST(HostTables, of_rotations_may_lie_elsewhere) {
  for (const NamedRotary& r : rotations()) {
    const Rotary rotary = *Rotary::make(r.spec);
    EXPECT_EQ(tables_of(r.name, [&](Memory& m) { return rotary.apply(m.tensor({1, kTokens, 3, 12}), m.at(-7, r.axes, kTokens)); }),
              r.tables);
    const bool own = r.spec.lanes == Lanes::per_channel_frequencies;
    const Extents rows = {1, kTokens, r.axes == 2 ? 3 : 1, own ? 12 : 6};
    EXPECT_EQ(tables_of(r.name, [&](Memory& m) { return rotary.cos_sin(m.at(-7, r.axes, kTokens), m.tensor(rows), m.tensor(rows)); }),
              r.tables);
  }
  EXPECT_EQ(tables_of("given tables",
                      [](Memory& m) { return apply_rotary(m.tensor({1, 3, 1, 12}), m.tensor({1, 3, 1, 6}), m.tensor({1, 3, 1, 6})); }),
            0);
}

TEST(HostTables, of_keys_that_move_may_lie_elsewhere) {
  const Rotary near = *Rotary::make({.head_dim = 12, .axes = {.sections = {1, 2, 3}}});
  const Rotary far = *Rotary::make({.head_dim = 12, .base = 500000, .axes = {.sections = {3, 2, 1}}});
  EXPECT_EQ(tables_of("shift", [&](Memory& m) { return rerotate(m.tensor({1, 5, 2, 12}), {near, m.at(3, 3, 5)}, {near, m.at(90, 3, 5)}); }),
            8);
  EXPECT_EQ(tables_of("slots",
                      [&](Memory& m) {
                        return rerotate(m.tensor({2, 4, 1, 12}), m.slots({6, 1, 3}), {near, m.at(3, 3, 3)}, {far, m.at(90, 3, 3)});
                      }),
            8);
}

TEST(HostTables, of_gradients_of_rotations_may_lie_elsewhere) {
  for (const NamedRotary& r : rotations()) {
    if (r.spec.lanes == Lanes::per_channel_frequencies) continue;
    const Rotary rotary = *Rotary::make(r.spec);
    const Extents phases = {1, kTokens, 3, 6};
    const auto count = static_cast<std::int64_t>(rotary.frequencies().size());
    const int tables = r.axes == 3 ? 2 : 1;
    EXPECT_EQ(
        tables_of(r.name, [&](Memory& m) { return rotary.frequency_gradient(m.sums(count), m.tensor(phases), m.at(-7, r.axes, kTokens)); }),
        tables);
    EXPECT_EQ(tables_of(r.name, [&](Memory& m) { return rotary.position_gradient(m.doubles(r.axes, kTokens), m.tensor(phases)); }), tables);
  }
  EXPECT_EQ(tables_of("phase_gradient",
                      [](Memory& m) { return phase_gradient(m.tensor({1, 3, 1, 6}), m.tensor({1, 3, 1, 12}), m.tensor({1, 3, 1, 12})); }),
            0);
}

TEST(HostTables, of_several_specs_may_lie_elsewhere) {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 12}), *Rotary::make({.head_dim = 12, .base = 500000})};
  const auto call = [&](Memory& m) {
    const Slots of = m.slots({1, 0, 1});
    return apply_rotaries({rotaries, {of.data, PositionType::i64, of.size, of.device}}, m.tensor({1, 3, 2, 12}), m.at(7, 3));
  };
  EXPECT_EQ(tables_of("two specs", call), 10);
}

/// Three tokens by the first specs of a list.
PrepareRotation rotation_of(Memory& m, const std::vector<Rotary>& rotaries, std::size_t specs) {
  const Slots of = m.slots({1, 0, 1});
  PrepareRotation rotation = {{rotaries.data(), specs}, m.at(7, 3), {}};
  if (specs > 1) rotation.spec_of = {of.data, PositionType::i64, of.size, of.device};
  return rotation;
}

TEST(HostTables, of_heads_made_ready_may_lie_elsewhere) {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 12}), *Rotary::make({.head_dim = 12, .base = 500000})};
  const auto call = [&](Memory& m, std::size_t specs) {
    PrepareInputs inputs;
    inputs.k = m.tensor({1, 3, 2, 12});
    const PrepareRotation rotation = rotation_of(m, rotaries, specs);
    return prepare_attention(inputs, rotation, {{}, tensor_cache(m.tensor({1, 3, 2, 12})), {}, {}});
  };
  EXPECT_EQ(tables_of("one spec", [&](Memory& m) { return call(m, 1); }), 3);
  EXPECT_EQ(tables_of("two specs", [&](Memory& m) { return call(m, 2); }), 10);
}

TEST(HostTables, of_gradients_of_heads_made_ready_may_lie_elsewhere) {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 12}), *Rotary::make({.head_dim = 12, .base = 500000})};
  const auto call = [&](Memory& m, std::size_t specs) {
    PrepareInputs inputs;
    inputs.k = m.tensor({1, 3, 2, 12});
    const PrepareRotation rotation = rotation_of(m, rotaries, specs);
    PrepareGradients gradients;
    gradients.k = {m.tensor({1, 3, 2, 12}), m.tensor({1, 3, 2, 12}), {}};
    PrepareSpec spec = {.order = PrepareSpec::Order::rotation_first};
    spec.k_norm.kind = HeadNorm::Kind::rms;
    return prepare_attention_backward(inputs, rotation, gradients, spec);
  };
  EXPECT_EQ(tables_of("one spec", [&](Memory& m) { return call(m, 1); }), 3);
  EXPECT_EQ(tables_of("two specs", [&](Memory& m) { return call(m, 2); }), 10);
}

TEST(HostTables, of_additions_may_lie_elsewhere) {
  const Sinusoidal two = *Sinusoidal::make({.width = 16, .axis_widths = {8, 8}});
  EXPECT_EQ(tables_of("fill", [&](Memory& m) { return two.fill(m.tensor({1, kTokens, 1, 16}), m.at(5, 2, kTokens)); }), 4);
  EXPECT_EQ(tables_of("add", [&](Memory& m) { return two.add(m.tensor({1, kTokens, 1, 16}), m.at(5, 2, kTokens)); }), 4);
  EXPECT_EQ(tables_of("lookup", [](Memory& m) { return lookup_add(m.tensor({1, 3, 1, 16}), m.tensor({1, 9, 1, 16}), m.at(5, 3)); }), 0);
  EXPECT_EQ(tables_of("scatter", [](Memory& m) { return scatter_gradient(m.tensor({1, 9, 1, 16}), m.tensor({1, 3, 1, 16}), m.at(5, 3)); }),
            0);
}

TEST(HostTables, of_every_bias_may_lie_elsewhere) {
  for (const NamedBias& named : every_bias()) {
    const Bias bias = *Bias::make(named.spec);
    const std::int64_t heads = bias.heads();
    EXPECT_GE(tables_of(named.name, [&](Memory& m) { return bias.diagonal(m.tensor({1, heads, 1, 7}), -3); }), 1);
    EXPECT_GE(tables_of(named.name, [&](Memory& m) { return bias.fill(m.tensor({1, heads, 3, 3}), m.at(0, 3), m.at(0, 3)); }), 1);
    if (bias.parameter_count() == 0) continue;
    EXPECT_GE(
        tables_of(named.name, [&](Memory& m) { return bias.gradient(m.sums(bias.parameter_count()), m.tensor({1, heads, 1, 7}), -3); }), 1);
  }
}

}  // namespace
}  // namespace phasor::test
