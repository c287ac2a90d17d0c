// SPDX-License-Identifier: Apache-2.0
// A job as a device sees it: bytes, whose host tables it copied to memory of its own. The backend here does that for every job, puts the
// copies in place of the tables, spoils the originals, and lets the CPU run what is left: the same bits, and no pointer to anything else.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host_tables.hpp"
#include "backend/memory.hpp"
#include "bias_specs.hpp"

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

using backend::Backend;

// ---- A backend that takes jobs elsewhere ----

const Backend* cpu = nullptr;
const Memory* memory_of_call = nullptr;  // what a job may point to besides its tables
int tables_moved = 0;

/// Copies of host tables. While it lives after `spoil`, the originals are wrong.
class Tables {
 public:
  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  ~Tables() {
    for (const Table& table : all_) std::memcpy(table.original, table.copy.data(), table.copy.size());
  }

  template <class T>
  void take(const T*& pointer, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto* from = reinterpret_cast<const std::byte*>(pointer);
    const Table& table = all_.emplace_back(const_cast<std::byte*>(from), std::vector<std::byte>(from, from + bytes));
    pointer = reinterpret_cast<const T*>(table.copy.data());
    ++tables_moved;
  }
  void spoil() {
    for (const Table& table : all_) std::memset(table.original, 0x3f, table.copy.size());
  }
  bool hold(const void* pointer) const {
    for (const Table& table : all_) {
      if (pointer >= table.copy.data() && pointer < table.copy.data() + table.copy.size()) return true;
    }
    return false;
  }

 private:
  struct Table {
    Table(std::byte* from, std::vector<std::byte> bytes) : original(from), copy(std::move(bytes)) {}
    std::byte* original;  // of a plan's vector, which nobody else reads meanwhile
    std::vector<std::byte> copy;
  };
  std::deque<Table> all_;
};

/// body(pointer) for every pointer in a job.
template <class T, class Body>
void each_pointer(const T& x, const Body& body) {
  if constexpr (std::is_pointer_v<T>) {
    body(static_cast<const void*>(x));
  } else if constexpr (std::is_array_v<T>) {
    for (const auto& element : x) each_pointer(element, body);
  } else if constexpr (job::ListsMembers<T>) {
    std::apply([&](const auto&... members) { (each_pointer(members, body), ...); }, members_of(x));
  }
}

template <auto operation, class Job>
Status run_elsewhere(Job& given, const Execution& execution) {
  Job job = given;
  Tables tables;
  backend::each_host_table(job, [&](auto& pointer, std::int64_t count) { tables.take(pointer, count); });
  tables.spoil();
  each_pointer(job, [&](const void* pointer) {
    EXPECT_TRUE(pointer == nullptr || tables.hold(pointer) || memory_of_call->holds(pointer)) << "neither a host table nor a tensor's";
  });
  return (cpu->*operation)(job, execution);
}

Backend relocating_backend() {
  Backend b = *cpu;
  b.name = "relocating";
  b.rotate = run_elsewhere<&Backend::rotate, job::RotateJob>;
  b.rerotate = run_elsewhere<&Backend::rerotate, job::RerotateJob>;
  b.rows = run_elsewhere<&Backend::rows, job::RowsJob>;
  b.add = run_elsewhere<&Backend::add, job::AddJob>;
  b.lookup = run_elsewhere<&Backend::lookup, job::LookupJob>;
  b.scatter = run_elsewhere<&Backend::scatter, job::ScatterJob>;
  b.phase_gradient = run_elsewhere<&Backend::phase_gradient, job::PhaseGradientJob>;
  b.frequency_gradient = run_elsewhere<&Backend::frequency_gradient, job::FrequencyGradientJob>;
  b.position_gradient = run_elsewhere<&Backend::position_gradient, job::PositionGradientJob>;
  b.bias_diagonal = run_elsewhere<&Backend::bias_diagonal, job::DiagonalJob>;
  b.bias_gradient = run_elsewhere<&Backend::bias_gradient, job::DiagonalGradientJob>;
  b.bias_fill = run_elsewhere<&Backend::bias_fill, job::BlockJob>;
  return b;
}

using Call = std::function<Status(Memory&)>;

/// The call with its tables where they are, and with its tables elsewhere: the same numbers. Returns how many tables there were.
int tables_of(const std::string& name, const Call& call) {
  SCOPED_TRACE(name);
  Memory here{Device{}};
  Status status = call(here);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(here.is_untouched());
  Memory elsewhere{Device{}};
  memory_of_call = &elsewhere;
  tables_moved = 0;
  cpu = *backend::choose(Device{});
  const Backend relocating = relocating_backend();
  backend::replace(DeviceKind::cpu, &relocating);
  status = call(elsewhere);
  backend::replace(DeviceKind::cpu, cpu);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(elsewhere == here);
  return tables_moved;
}

// ---- Jobs of every kind of table ----

struct NamedRotary {
  const char* name;
  RotarySpec spec;
  std::int64_t axes = 1;
  int tables = 3;  // steps and two of turns
};

RotarySpec directions() { return {.head_dim = 12, .scaling = GivenDirections{2, 3, numbers(2 * 3 * 6, 5)}}; }

std::vector<NamedRotary> rotations() {
  const RotarySpec plain = {.head_dim = 12};
  RotarySpec axes = plain;
  axes.axes = {.sections = {1, 2, 3}};
  RotarySpec tiled = axes;
  tiled.pairing = Pairing::interleaved;
  tiled.lanes = Lanes::tiled;
  RotarySpec hf = plain;
  hf.numerics = Numerics::hf;
  RotarySpec ggml = plain;
  ggml.numerics = Numerics::ggml;
  return {{"plain", plain}, {"axes", axes, 3, 4}, {"tiled", tiled, 3, 4}, {"directions", directions(), 2},
          {"hf", hf, 1, 4}, {"ggml", ggml, 1, 4}};
}

constexpr std::int64_t kTokens = 40;  // more than a block of rows

TEST(HostTables, of_rotations_may_lie_elsewhere) {
  for (const NamedRotary& r : rotations()) {
    const Rotary rotary = *Rotary::make(r.spec);
    EXPECT_EQ(tables_of(r.name, [&](Memory& m) { return rotary.apply(m.tensor({1, kTokens, 3, 12}), m.at(-7, r.axes, kTokens)); }),
              r.tables);
    const bool own = r.spec.lanes == Lanes::tiled;
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
    if (r.spec.lanes == Lanes::tiled) continue;
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
