// SPDX-License-Identifier: Apache-2.0
// Of several arguments that are wrong the first is named, whatever order a compiler makes them in.
#include "phasor/phasor.h"

#include "c/support.hpp"

namespace phasor::test {
namespace {

/// What a call says of arguments that are all wrong.
template <class Call>
void expect_named(const std::string& begins, const Call& call) {
  const std::string message = failure(PHASOR_INVALID, call);
  EXPECT_EQ(message.substr(0, begins.size()), begins) << message;
}

// Positions that are a tensor and an offset, and lists of a dtype that none has, are wrong as they are read.
TEST(COrder, of_builders_is_that_of_their_arguments) {
  std::int64_t shape[1] = {2};
  std::vector<double> numbers(2);
  const phasor_tensor wrong = phasor_tensor_of(numbers.data(), PHASOR_F64, shape, 1);
  const phasor_page_table table = {.blocks = &wrong, .lengths = nullptr, .page_size = 1};
  const phasor_positions at = {.tensor = &wrong, .offset = 1};
  phasor_slots_call slots{};
  slots.size = sizeof slots;
  slots.table = table;
  slots.at = at;
  slots.cu_seqlens = &wrong;
  expect_named("fill_slots: out ", [&](phasor_error* error) { return phasor_fill_slots(&slots, error); });
  expect_named("fill_from_pages: out ", [&](phasor_error* error) { return phasor_fill_from_pages(nullptr, &table, -1, error); });
  expect_named("fill_from_offsets: out ", [&](phasor_error* error) { return phasor_fill_from_offsets(nullptr, &wrong, nullptr, error); });
  expect_named("fill_from_cu_seqlens: out ",
               [&](phasor_error* error) { return phasor_fill_from_cu_seqlens(nullptr, nullptr, nullptr, error); });
  expect_named("fill_from_mask: out ", [&](phasor_error* error) { return phasor_fill_from_mask(nullptr, nullptr, nullptr, error); });
  expect_named("fill_from_tree: out ", [&](phasor_error* error) { return phasor_fill_from_tree(nullptr, nullptr, error); });
  expect_named("fill_shard: out ", [&](phasor_error* error) { return phasor_fill_shard(nullptr, nullptr, error); });
  expect_named("fill_window: out ", [&](phasor_error* error) { return phasor_fill_window(nullptr, nullptr, error); });
  expect_named("fill_mrope: out ", [&](phasor_error* error) { return phasor_fill_mrope(nullptr, nullptr, 1, nullptr, error); });
  expect_named("fill_temperature: out ", [&](phasor_error* error) { return phasor_fill_temperature(nullptr, 2, nullptr, at, error); });
  expect_named("fill_temperature: out ",
               [&](phasor_error* error) { return phasor_fill_query_factors(nullptr, nullptr, at, nullptr, error); });
}

TEST(COrder, of_tensors_is_that_of_their_arguments) {
  phasor_rotary* rotary = nullptr;
  phasor_rotary_spec spec{};
  spec.size = sizeof spec;
  spec.head_dim = 4;
  succeeds([&](phasor_error* error) { return phasor_rotary_make(&spec, &rotary, error); });
  phasor_cos_sin_call tables{};
  tables.size = sizeof tables;
  expect_named("cos_sin: cos ", [&](phasor_error* error) { return phasor_rotary_cos_sin(rotary, &tables, error); });
  phasor_rotary_free(rotary);
  phasor_phase_gradient_call phases{};
  phases.size = sizeof phases;
  expect_named("phase_gradient: out ", [&](phasor_error* error) { return phasor_phase_gradient(&phases, error); });
  expect_named("resample_table: out ", [&](phasor_error* error) { return phasor_resample_table(nullptr, nullptr, nullptr, error); });
  phasor_scatter scatter{};
  scatter.size = sizeof scatter;
  expect_named("scatter_gradient: table_gradient ", [&](phasor_error* error) { return phasor_scatter_gradient(&scatter, error); });
  expect_named("orthogonality: a ", [&](phasor_error* error) { return phasor_orthogonality(nullptr, nullptr, nullptr, error); });
}

}  // namespace
}  // namespace phasor::test
