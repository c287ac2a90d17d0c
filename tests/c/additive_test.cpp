// SPDX-License-Identifier: Apache-2.0
// Sinusoidal encodings in C: specs both ways, values, gradients and shifts as in C++.
#include "specs/additive.hpp"
#include "c/support.hpp"
#include "phasor/phasor.h"
#include "phasor/phasor.hpp"
#include "serialised_specs.hpp"
#include "spec_bits.hpp"

namespace phasor::test {
namespace {

struct Free {
  void operator()(phasor_sinusoidal* sinusoidal) const { phasor_sinusoidal_free(sinusoidal); }
};
using SinusoidalPointer = std::unique_ptr<phasor_sinusoidal, Free>;

SinusoidalPointer made(const phasor_sinusoidal_spec& spec) {
  phasor_sinusoidal* sinusoidal = nullptr;
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_make(&spec, &sinusoidal, error); });
  return SinusoidalPointer(sinusoidal);
}

phasor_sinusoidal_spec spec_of(std::int64_t width) {
  phasor_sinusoidal_spec spec = {};
  spec.size = sizeof spec;
  spec.width = width;
  return spec;
}
phasor_sinusoidal_call call_of(const phasor_tensor* x, const phasor_tensor* out, std::int64_t offset) {
  phasor_sinusoidal_call call = {};
  call.size = sizeof call;
  call.x = x;
  call.out = out;
  call.positions.offset = offset;
  return call;
}

std::string json_of(const phasor_sinusoidal* sinusoidal) {
  return text_by([&](phasor_text* text, phasor_error* error) { return phasor_sinusoidal_to_json(sinusoidal, text, error); });
}

TEST(CSinusoidal, every_spec_goes_through_structs_and_texts_unchanged) {
  std::size_t seen = 0;
  for (const auto& [name, any] : any_specs()) {
    const auto* spec = std::get_if<SinusoidalSpec>(&any);
    if (spec == nullptr) continue;
    ++seen;
    const SinusoidalPointer sinusoidal = made(c::c_sinusoidal_spec_of(*spec));
    ASSERT_NE(sinusoidal, nullptr) << name;
    const std::string json = json_of(sinusoidal.get());
    EXPECT_EQ(json, *spec_to_json(*spec)) << name;

    phasor_sinusoidal_spec given = spec_of(0);
    succeeds([&](phasor_error* error) { return phasor_sinusoidal_get_spec(sinusoidal.get(), &given, error); });
    EXPECT_EQ(bits(AnySpec(c::sinusoidal_spec_of("test", &given))), bits(any)) << name;

    phasor_sinusoidal* again = nullptr;
    succeeds([&](phasor_error* error) { return phasor_sinusoidal_from_json(json.data(), json.size(), &again, error); });
    const SinusoidalPointer from_json(again);
    std::vector<std::uint8_t> bytes(json.size());
    phasor_bytes binary = {bytes.data(), bytes.size(), 0};
    succeeds([&](phasor_error* error) { return phasor_sinusoidal_to_cbor(from_json.get(), &binary, error); });
    succeeds([&](phasor_error* error) { return phasor_sinusoidal_from_cbor(bytes.data(), binary.length, &again, error); });
    const SinusoidalPointer from_cbor(again);
    EXPECT_EQ(json_of(from_cbor.get()), json);

    const Sinusoidal same = *Sinusoidal::make(*spec);
    EXPECT_EQ(phasor_sinusoidal_axes(sinusoidal.get()), same.axes());
    std::size_t count = 0;
    const double* frequencies = phasor_sinusoidal_frequencies(sinusoidal.get(), &count);
    EXPECT_EQ(std::vector<double>(frequencies, frequencies + count), same.frequencies());
  }
  EXPECT_GT(seen, 6U);
  EXPECT_EQ(phasor_sinusoidal_axes(nullptr), 0);
  std::size_t count = 9;
  EXPECT_EQ(phasor_sinusoidal_frequencies(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0U);
}

TEST(CSinusoidal, zeros_are_the_defaults_of_every_ladder) {
  const SinusoidLadder ladders[] = {GeometricLadder{}, LogSpacedLadder{}, BandLadder{}};
  for (const SinusoidLadder& ladder : ladders) {
    phasor_sinusoidal_spec spec = spec_of(8);
    spec.ladder = static_cast<phasor_sinusoid_ladder>(ladder.index());
    EXPECT_EQ(json_of(made(spec).get()), *spec_to_json(SinusoidalSpec{.width = 8, .ladder = ladder}));
  }
}

TEST(CSinusoidal, fills_and_adds_as_cpp_does) {
  const SinusoidalPointer sinusoidal = made(spec_of(7));
  const Sinusoidal same = *Sinusoidal::make({.width = 7});
  const CTensor<std::int32_t> at({2, 3}, {7, 1, 1000000, 3, 0, 123456789});
  const CTensor<float> out({2, 3, 1, 7});
  std::vector<float> want(42);
  phasor_sinusoidal_call call = call_of(nullptr, out.get(), 0);
  call.positions.tensor = at.get();
  ASSERT_TRUE(same.fill(view(want.data(), {2, 3, 1, 7}), positions(at.values.data(), 2, 3)).ok());
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_fill(sinusoidal.get(), &call, error); });
  EXPECT_EQ(out.values, want);

  call.has_amplitude = 1;
  call.amplitude = -0.375;
  ASSERT_TRUE(same.fill(view(want.data(), {2, 3, 1, 7}), positions(at.values.data(), 2, 3), {.amplitude = -0.375}).ok());
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_fill(sinusoidal.get(), &call, error); });
  EXPECT_EQ(out.values, want);

  const CTensor<float> x({2, 3, 1, 7}, floats(42));
  const std::vector<float> before = x.values;
  call.x = x.get();
  ASSERT_TRUE(same.add({view(before.data(), {2, 3, 1, 7}), view(want.data(), {2, 3, 1, 7})}, positions(at.values.data(), 2, 3),
                       {.amplitude = -0.375})
                  .ok());
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_add(sinusoidal.get(), &call, error); });
  EXPECT_EQ(out.values, want);
  EXPECT_EQ(x.values, before);

  const CTensor<float> in_place({6, 7}, before);
  const phasor_sinusoidal_call from_offset = call_of(in_place.get(), nullptr, 41);
  want = before;
  ASSERT_TRUE(same.add(view(want.data(), {1, 6, 1, 7}), positions_from(41)).ok());
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_add(sinusoidal.get(), &from_offset, error); });
  EXPECT_EQ(in_place.values, want);

  double sum = 0;
  succeeds(
      [&](phasor_error* error) { return phasor_sinusoidal_amplitude_gradient(sinusoidal.get(), x.get(), {at.get(), 0}, &sum, error); });
  EXPECT_EQ(sum, *same.amplitude_gradient(view(before.data(), {2, 3, 1, 7}), positions(at.values.data(), 2, 3)));
  EXPECT_NE(sum, 0);
}

void run_counted(void* context, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
  *static_cast<std::int64_t*>(context) += tasks;
  for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

TEST(CSinusoidal, runs_on_the_callers_runner) {
  const SinusoidalPointer sinusoidal = made(spec_of(64));
  const Sinusoidal same = *Sinusoidal::make({.width = 64});
  const CTensor<float> out({3000, 64});
  std::vector<float> want(out.values.size());
  std::int64_t tasks = 0;
  phasor_sinusoidal_call call = call_of(nullptr, out.get(), 5);
  call.execution.runner = {run_counted, &tasks};
  ASSERT_TRUE(same.fill(view(want.data(), {1, 3000, 1, 64}), positions_from(5)).ok());
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_fill(sinusoidal.get(), &call, error); });
  EXPECT_EQ(out.values, want);
  EXPECT_GT(tasks, 0);
  tasks = 0;
  call.x = out.get();
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_add(sinusoidal.get(), &call, error); });
  EXPECT_GT(tasks, 0);

  const CTensor<float> table({3000, 64});
  const phasor_tensor* tables[] = {table.get()};
  phasor_lookup lookup = {};
  lookup.size = sizeof lookup;
  lookup.x = out.get();
  lookup.tables = tables;
  lookup.table_count = 1;
  lookup.execution = call.execution;
  tasks = 0;
  succeeds([&](phasor_error* error) { return phasor_lookup_add(&lookup, error); });
  EXPECT_GT(tasks, 0);
}

TEST(CSinusoidal, shifts_are_those_of_cpp) {
  const SinusoidalSpec spec = {.width = 12, .order = SinusoidOrder::sin_cos, .axis_widths = {4, 8}};
  const SinusoidalPointer sinusoidal = made(c::c_sinusoidal_spec_of(spec));
  const double distances[] = {3, -1.5};
  const ShiftOperator same = *(*Sinusoidal::make(spec)).shift(distances);
  phasor_shift_operator shift = {};
  shift.size = sizeof shift;
  shift.width = -1;
  EXPECT_EQ(failure(PHASOR_TOO_SMALL,
                    [&](phasor_error* error) { return phasor_sinusoidal_shift(sinusoidal.get(), distances, 2, &shift, error); }),
            "shift: the buffer has room for 0 pairs, wanted 6");
  EXPECT_EQ(shift.count, 6U);
  EXPECT_EQ(shift.width, -1);
  std::vector<phasor_shift_pair> pairs(6);
  shift.pairs = pairs.data();
  shift.capacity = pairs.size();
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_shift(sinusoidal.get(), distances, 2, &shift, error); });
  EXPECT_EQ(shift.width, 12);
  ASSERT_EQ(shift.count, same.pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(pairs[i].sin_channel, same.pairs[i].sin_channel);
    EXPECT_EQ(pairs[i].cos_channel, same.pairs[i].cos_channel);
    EXPECT_EQ(pairs[i].sin, same.pairs[i].sin);
    EXPECT_EQ(pairs[i].cos, same.pairs[i].cos);
  }

  const std::vector<double> from = numbers(12, 3);
  std::vector<double> to(12);
  std::vector<double> want(12);
  ASSERT_TRUE(apply_shift(same, from, want).ok());
  succeeds([&](phasor_error* error) { return phasor_apply_shift(&shift, from.data(), to.data(), 12, error); });
  EXPECT_EQ(to, want);
  to = from;
  succeeds([&](phasor_error* error) { return phasor_apply_shift(&shift, to.data(), to.data(), 12, error); });
  EXPECT_EQ(to, want);

  std::vector<double> dense(144);
  phasor_doubles matrix = {dense.data(), 143, 0};
  EXPECT_EQ(failure(PHASOR_TOO_SMALL, [&](phasor_error* error) { return phasor_matrix_of(&shift, &matrix, error); }),
            "matrix_of: the buffer has room for 143 numbers, wanted 144");
  EXPECT_EQ(dense, std::vector<double>(144));
  matrix.capacity = 144;
  succeeds([&](phasor_error* error) { return phasor_matrix_of(&shift, &matrix, error); });
  EXPECT_EQ(dense, *matrix_of(same));
  EXPECT_EQ(matrix.count, 144U);

  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_apply_shift(&shift, from.data(), to.data(), 11, error); }),
            "apply_shift: 11 channels become 11, wanted 12");
  pairs[2].cos_channel = 12;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_apply_shift(&shift, from.data(), to.data(), 12, error); }),
            "apply_shift: a pair has channel 12, wanted 0 to 11");
  shift.width = std::int64_t{1} << 32;  // its square is no size
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_matrix_of(&shift, &matrix, error); }),
            "matrix_of: the width is 4294967296, wanted 0 to 1048576");
  shift.width = -1;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_matrix_of(&shift, &matrix, error); }),
            "matrix_of: the width is -1, wanted 0 to 1048576");
  shift.width = std::int64_t{1} << 21;  // before its room is asked for
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_matrix_of(&shift, &matrix, error); }),
            "matrix_of: the width is 2097152, wanted 0 to 1048576");
  EXPECT_EQ(to, want);
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_sinusoidal_shift(sinusoidal.get(), distances, 0, &shift, error); }),
      "shift: distances has 0 elements, wanted 1 or 2");
}

TEST(CSinusoidal, bad_arguments_are_refused_and_nothing_is_written) {
  phasor_sinusoidal* none = nullptr;
  const auto make = [&](const phasor_sinusoidal_spec& spec) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_sinusoidal_make(&spec, &none, error); });
  };
  phasor_sinusoidal_spec spec = spec_of(8);
  spec.highest = 3;
  EXPECT_EQ(make(spec), "sinusoidal_make: highest is given, and GeometricLadder has none, wanted 0");
  spec = spec_of(8);
  spec.ladder = 4;
  EXPECT_EQ(make(spec), "sinusoidal_make: ladder is 4, wanted 0 to 3");
  spec = spec_of(8);
  spec.zero_position = 1;
  EXPECT_EQ(make(spec), "sinusoidal_make: zero_position is given and has_zero_position is 0, wanted 1");
  spec = spec_of(8);
  spec.has_zero_position = -1;
  EXPECT_EQ(make(spec), "sinusoidal_make: has_zero_position is -1, wanted 0 or 1");
  spec = spec_of(8);
  spec.frequency_count = 3;
  EXPECT_EQ(make(spec), "sinusoidal_make: frequency_count is given, and GeometricLadder has none, wanted 0");
  spec = spec_of(8);
  spec.order = -1;
  EXPECT_EQ(make(spec), "sinusoidal_make: order is -1, wanted 0 to 2");
  EXPECT_EQ(make(spec_of(0)), "SinusoidalSpec: width is 0, wanted 1 to 1048576");
  EXPECT_EQ(none, nullptr);

  const SinusoidalPointer sinusoidal = made(spec_of(8));
  const CTensor<float> x({3, 8}, floats(24));
  const CTensor<float> narrow({3, 6});
  const std::vector<float> before = x.values;
  const auto fill = [&](const phasor_sinusoidal_call& call) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_sinusoidal_fill(sinusoidal.get(), &call, error); });
  };
  EXPECT_EQ(fill(call_of(x.get(), x.get(), 0)), "fill_sinusoidal: x is given, wanted `out` alone");
  EXPECT_EQ(fill(call_of(nullptr, nullptr, 0)), "fill_sinusoidal: out is null, wanted one");
  EXPECT_EQ(fill(call_of(nullptr, narrow.get(), 0)), "fill_sinusoidal: out has 6 channels, the encoding has 8");
  phasor_sinusoidal_call call = call_of(x.get(), nullptr, 0);
  const auto add = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_sinusoidal_add(sinusoidal.get(), &call, error); });
  };
  call.amplitude = 2;
  EXPECT_EQ(add(), "add_sinusoidal: amplitude is given and has_amplitude is 0, wanted 1");
  call.amplitude = 0;
  call.has_amplitude = 1;
  EXPECT_EQ(add(), "add_sinusoidal: amplitude is 0, wanted 2^-64 to 2^64 (or below 0)");
  phasor_tensor integers = *x.get();
  integers.dtype = {0, 32, 1};
  call = call_of(x.get(), &integers, 0);
  EXPECT_EQ(add(), "add_sinusoidal: out has a dtype of code 0, 32 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  call = call_of(nullptr, x.get(), 0);
  EXPECT_EQ(add(), "add_sinusoidal: x is null, wanted one");
  call.size = 2;
  EXPECT_EQ(add(), "add_sinusoidal: the size of the call is 2, wanted its sizeof, " + std::to_string(sizeof call) + " in this version");
  double sum = 5;
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* error) {
                      return phasor_sinusoidal_amplitude_gradient(sinusoidal.get(), nullptr, {nullptr, 0}, &sum, error);
                    }),
            "amplitude_gradient: gradient is null, wanted one");
  EXPECT_EQ(sum, 5);
  EXPECT_EQ(x.values, before);
  phasor_sinusoidal_free(nullptr);
}

}  // namespace
}  // namespace phasor::test
