// SPDX-License-Identifier: Apache-2.0
// A backend that takes every job elsewhere: it copies the host tables, puts the copies in their place, spoils the originals, and lets the
// CPU run what is left. And rotations with every kind of table.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host_tables.hpp"
#include "backend/memory.hpp"
#include "bias_specs.hpp"

namespace phasor::test {

using backend::Backend;

inline const Backend* cpu = nullptr;
inline const Memory* memory_of_call = nullptr;  // what a job may point to besides its tables
inline int tables_moved = 0;

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
  void take(T*& pointer, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto* from = reinterpret_cast<const std::byte*>(pointer);
    Table& table = all_.emplace_back(const_cast<std::byte*>(from), std::vector<std::byte>(from, from + bytes));
    pointer = reinterpret_cast<T*>(table.copy.data());
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
  if constexpr (std::is_same_v<T, const plan::DeviceCopies*>) {  // no device follows it
  } else if constexpr (std::is_pointer_v<T>) {
    body(static_cast<const void*>(x));
  } else if constexpr (std::is_array_v<T>) {
    for (const auto& element : x) each_pointer(element, body);
  } else if constexpr (job::ListsMembers<T>) {
    std::apply([&](const auto&... members) { (each_pointer(members, body), ...); }, members_of(x));
  }
}

/// The terms of a job are a table that has pointers of its own.
template <class Job, class Body>
void each_pointer_of_terms(const Job& /*job*/, const Body& /*body*/) {}
template <class Body>
void each_pointer_of_terms(const job::AttentionJob& job, const Body& body) {
  for (std::int64_t t = 0; t < job.term_count; ++t) each_pointer(job.terms[t], body);
}
template <class Body>
void each_pointer_of_terms(const job::AttentionBackwardJob& job, const Body& body) {
  each_pointer_of_terms(job.forward, body);
}
template <class Body>
void each_pointer_of_terms(const job::AttentionWeightsJob& job, const Body& body) {
  each_pointer_of_terms(job.forward, body);
}

/// A job that was sent elsewhere; what is told (`more` beside it) is the same.
template <auto operation, class Job, class... More>
Status run_elsewhere(Job& given, const More&... more) {
  Job job = given;
  Tables tables;
  backend::each_host_table(job, [&](auto& pointer, std::int64_t count) { tables.take(pointer, count); });
  tables.spoil();
  const auto expect_known = [&](const void* pointer) {
    EXPECT_TRUE(pointer == nullptr || tables.hold(pointer) || memory_of_call->holds(pointer)) << "neither a host table nor a tensor's";
  };
  each_pointer(job, expect_known);
  each_pointer_of_terms(job, expect_known);
  return (cpu->*operation)(job, more...);
}

inline Backend relocating_backend() {
  Backend b = *cpu;
  b.name = "relocating";
  b.rotate = run_elsewhere<&Backend::rotate, job::RotateJob, Execution>;
  b.rotate_specs = run_elsewhere<&Backend::rotate_specs, job::RotateSpecsJob, Execution>;
  b.rerotate = run_elsewhere<&Backend::rerotate, job::RerotateJob, Execution>;
  b.rows = run_elsewhere<&Backend::rows, job::RowsJob, Execution>;
  b.add = run_elsewhere<&Backend::add, job::AddJob, Execution>;
  b.lookup = run_elsewhere<&Backend::lookup, job::LookupJob, Execution>;
  b.scatter = run_elsewhere<&Backend::scatter, job::ScatterJob, Execution>;
  b.phase_gradient = run_elsewhere<&Backend::phase_gradient, job::PhaseGradientJob, Execution>;
  b.frequency_gradient = run_elsewhere<&Backend::frequency_gradient, job::FrequencyGradientJob, Execution>;
  b.position_gradient = run_elsewhere<&Backend::position_gradient, job::PositionGradientJob, Execution>;
  b.bias_diagonal = run_elsewhere<&Backend::bias_diagonal, job::DiagonalJob, Execution>;
  b.bias_gradient = run_elsewhere<&Backend::bias_gradient, job::DiagonalGradientJob, Execution>;
  b.bias_fill = run_elsewhere<&Backend::bias_fill, job::BlockJob, Execution>;
  b.prepare = run_elsewhere<&Backend::prepare, job::PrepareJob, Execution>;
  b.prepare_backward = run_elsewhere<&Backend::prepare_backward, job::PrepareBackwardJob, Execution>;
  b.build_positions = run_elsewhere<&Backend::build_positions, job::BuildJob, Execution>;
  b.temperature = run_elsewhere<&Backend::temperature, job::TemperatureJob, Execution>;
  b.attention = run_elsewhere<&Backend::attention, job::AttentionJob, Workspace, Execution>;
  b.attention_backward = run_elsewhere<&Backend::attention_backward, job::AttentionBackwardJob, Workspace, Execution>;
  b.cached_attention = run_elsewhere<&Backend::cached_attention, job::CachedAttentionJob, Workspace, Execution>;
  b.attention_weights = run_elsewhere<&Backend::attention_weights, job::AttentionWeightsJob, Workspace, Execution>;
  b.merge = run_elsewhere<&Backend::merge, job::MergeJob, Execution>;
  return b;
}

using CallOf = std::function<Status(Memory&)>;

/// The call with its tables where they are, and with its tables elsewhere: the same numbers. Returns how many tables there were.
inline int tables_of(const std::string& name, const CallOf& call) {
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

// ---- Rotations ----

struct NamedRotary {
  const char* name;
  RotarySpec spec;
  std::int64_t axes = 1;
  int tables = 3;  // steps and two of turns
};

inline RotarySpec directions() { return {.head_dim = 12, .scaling = GivenDirections{2, 3, numbers(2 * 3 * 6, 5)}}; }

inline std::vector<NamedRotary> rotations() {
  const RotarySpec plain = {.head_dim = 12};
  RotarySpec axes = plain;
  axes.axes = {.sections = {1, 2, 3}};
  RotarySpec per_channel = axes;
  per_channel.pairing = Pairing::interleaved;
  per_channel.lanes = Lanes::per_channel_frequencies;
  RotarySpec hf = plain;
  hf.numerics = Numerics::hf;
  RotarySpec ggml = plain;
  ggml.numerics = Numerics::ggml;
  return {{"plain", plain}, {"axes", axes, 3, 4}, {"per_channel", per_channel, 3, 4}, {"directions", directions(), 2},
          {"hf", hf, 1, 4}, {"ggml", ggml, 1, 4}};
}

constexpr std::int64_t kTokens = 40;  // more than a block of rows

}  // namespace phasor::test
