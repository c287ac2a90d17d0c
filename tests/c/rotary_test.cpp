// SPDX-License-Identifier: Apache-2.0
// The rotary part of the C API: bitwise what the C++ functions give, whatever the version of the caller's structs.
#include <algorithm>
#include <bit>
#include <cmath>

#include "c/support.hpp"
#include "core/call.hpp"
#include "core/tensor.hpp"
#include "phasor/phasor.h"
#include "phasor/phasor.hpp"
#include "serialised_specs.hpp"
#include "spec_bits.hpp"
#include "specs/rotary.hpp"

namespace phasor::test {
namespace {

struct Free {
  void operator()(phasor_rotary* rotary) const { phasor_rotary_free(rotary); }
};
using RotaryPointer = std::unique_ptr<phasor_rotary, Free>;

RotaryPointer made(const phasor_rotary_spec& spec) {
  phasor_rotary* rotary = nullptr;
  succeeds([&](phasor_error* error) { return phasor_rotary_make(&spec, &rotary, error); });
  return RotaryPointer(rotary);
}

phasor_rotary_spec spec_of(std::int64_t head_dim) {
  phasor_rotary_spec spec = {};
  spec.size = sizeof spec;
  spec.head_dim = head_dim;
  return spec;
}
phasor_rotation rotation_of(const phasor_tensor* q, std::int64_t offset) {
  phasor_rotation rotation = {};
  rotation.size = sizeof rotation;
  rotation.q = q;
  rotation.positions.offset = offset;
  return rotation;
}

TEST(CRotary, rotates_as_cpp_does) {
  phasor_scaling yarn = {};
  yarn.size = sizeof yarn;
  yarn.kind = PHASOR_SCALING_YARN;
  yarn.factor = 4;
  yarn.original_length = 4096;
  phasor_rotary_spec spec = spec_of(14);
  spec.rotary_width = 10;
  spec.base = 500000;
  spec.pairing = PHASOR_PAIRING_INTERLEAVED;
  spec.scaling = &yarn;
  const RotaryPointer rotary = made(spec);
  const auto same = *Rotary::make({.head_dim = 14,
                                   .rotary_width = 10,
                                   .base = 500000,
                                   .scaling = YarnScaling{.factor = 4, .original_length = 4096},
                                   .pairing = Pairing::interleaved});
  EXPECT_EQ(phasor_rotary_amplitude(rotary.get()), same.amplitude());
  EXPECT_EQ(phasor_rotary_width(rotary.get()), 10);
  std::size_t count = 0;
  const double* frequencies = phasor_rotary_frequencies(rotary.get(), &count);
  EXPECT_EQ(std::vector<double>(frequencies, frequencies + count), same.frequencies());

  const CTensor<float> q({2, 5, 3, 14}, floats(420));
  const CTensor<float> k({2, 5, 1, 14}, floats(140, 2));
  const CTensor<std::int32_t> at({2, 5}, {7, 1, 1000000, 3, 0, 9, 2, 4, 8, 123456789});
  std::vector<float> want_q = q.values;
  std::vector<float> want_k = k.values;
  ASSERT_TRUE(same.apply(view(want_q.data(), {2, 5, 3, 14}), view(want_k.data(), {2, 5, 1, 14}), positions(at.values.data(), 2, 5)).ok());
  const CTensor<float> q_out({2, 5, 3, 14});
  phasor_rotation rotation = rotation_of(q.get(), 0);
  rotation.k = k.get();
  rotation.q_out = q_out.get();
  rotation.positions.tensor = at.get();
  succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); });
  EXPECT_EQ(q_out.values, want_q);
  EXPECT_EQ(k.values, want_k);

  rotation.q = q_out.get();
  rotation.q_out = nullptr;
  rotation.direction = PHASOR_TRANSPOSE;
  succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); });
  ASSERT_TRUE(same.apply(view(want_q.data(), {2, 5, 3, 14}), positions(at.values.data(), 2, 5), {.direction = Direction::transpose}).ok());
  EXPECT_EQ(q_out.values, want_q);
}

TEST(CRotary, tensors_of_fewer_axes_are_tokens_of_one_row) {
  const RotaryPointer rotary = made(spec_of(8));
  const auto same = *Rotary::make({.head_dim = 8});
  const std::vector<float> x = floats(24);
  std::vector<float> want = x;
  ASSERT_TRUE(same.apply(view(want.data(), {1, 3, 1, 8}), positions_from(5)).ok());
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3, 8}, {3, 1, 8}, {1, 3, 1, 8}}) {
    const CTensor<float> q(shape, x);
    const phasor_rotation rotation = rotation_of(q.get(), 5);
    succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); });
    EXPECT_EQ(q.values, want) << shape.size();
  }
}

/// A spec made by C is the one that C++ made, and so is what its struct, its JSON and its CBOR give back.
void goes_through_handles(const phasor_rotary_spec& c, const Rotary& same) {
  const RotaryPointer rotary = made(c);
  ASSERT_NE(rotary, nullptr);
  const auto json_of = [](const RotaryPointer& of) {
    return text_by([&](phasor_text* text, phasor_error* error) { return phasor_rotary_to_json(of.get(), text, error); });
  };
  const std::string json = json_of(rotary);
  EXPECT_EQ(json, *spec_to_json(same.spec()));

  phasor_rotary_spec given = {};
  given.size = sizeof given;
  phasor_scaling scaling = {};
  scaling.size = sizeof scaling;
  succeeds([&](phasor_error* error) { return phasor_rotary_get_spec(rotary.get(), &given, &scaling, error); });
  EXPECT_EQ(bits(AnySpec(c::rotary_spec_of("test", &given))), bits(AnySpec(same.spec()))) << json;

  phasor_rotary* again = nullptr;
  succeeds([&](phasor_error* error) { return phasor_rotary_from_json(json.data(), json.size(), &again, error); });
  const RotaryPointer from_json(again);
  std::vector<std::uint8_t> bytes(json.size());
  phasor_bytes binary = {bytes.data(), bytes.size(), 0};
  succeeds([&](phasor_error* error) { return phasor_rotary_to_cbor(from_json.get(), &binary, error); });
  succeeds([&](phasor_error* error) { return phasor_rotary_from_cbor(bytes.data(), binary.length, &again, error); });
  const RotaryPointer from_cbor(again);
  EXPECT_EQ(json_of(from_cbor), json);
}

TEST(CRotary, every_spec_goes_through_structs_and_texts_unchanged) {
  std::size_t seen = 0;
  std::size_t made_ready = 0;
  for (const auto& [name, any] : any_specs()) {
    const auto* spec = std::get_if<RotarySpec>(&any);
    if (spec == nullptr) continue;
    ++seen;
    phasor_rotary_spec c = c::c_spec_of(*spec);
    const phasor_scaling scaling = c::c_scaling_of(spec->scaling);
    c.scaling = &scaling;
    EXPECT_EQ(bits(AnySpec(c::rotary_spec_of("test", &c))), bits(any)) << name;
    const auto same = Rotary::make(*spec);
    if (!same) continue;  // factors for the form alone
    ++made_ready;
    goes_through_handles(c, *same);
  }
  EXPECT_GT(seen, 15U);
  EXPECT_GT(made_ready, 10U);
}

TEST(CRotary, an_older_callers_struct_is_shorter_and_a_newer_ones_longer) {
  const RotaryPointer rotary = made(spec_of(8));
  const CTensor<float> q({3, 8}, floats(24));
  struct Newer {
    phasor_rotation known;
    std::int64_t more;
  } newer = {rotation_of(q.get(), 5), 0};
  newer.known.size = sizeof newer;
  succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &newer.known, error); });
  newer.more = 1;
  EXPECT_EQ(failure(PHASOR_UNSUPPORTED, [&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &newer.known, error); }),
            "apply_rotary: the rotation has something in byte " + std::to_string(sizeof(phasor_rotation)) + ", and this library knows " +
                std::to_string(sizeof(phasor_rotation)) + " bytes of it, wanted 0 or a newer library");
  phasor_rotation older = rotation_of(q.get(), 5);
  older.size = offsetof(phasor_rotation, direction);
  older.direction = 99;  // behind its end: not read
  succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &older, error); });
  older.size = offsetof(phasor_rotation, k) + 1;  // in the midst of a pointer: no version's
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &older, error); }), "");
  older.size = 0;
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &older, error); }),
      "apply_rotary: the size of the rotation is 0, wanted its sizeof, " + std::to_string(sizeof(phasor_rotation)) + " in this version");
}

TEST(CRotary, bad_arguments_are_refused_and_nothing_is_written) {
  const RotaryPointer rotary = made(spec_of(8));
  const CTensor<float> q({3, 6}, floats(18));
  const std::vector<float> before = q.values;
  const auto apply = [&](const phasor_rotation& rotation, phasor_status status = PHASOR_INVALID) {
    return failure(status, [&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); });
  };
  EXPECT_EQ(apply(rotation_of(q.get(), 0)), "apply_rotary: q has head_dim 6, the spec wants 8");
  EXPECT_EQ(apply(rotation_of(nullptr, 0)), "apply_rotary: q is null, wanted one");
  phasor_rotation turned = rotation_of(q.get(), 0);
  turned.direction = 3;
  EXPECT_EQ(apply(turned), "apply_rotary: direction is 3, wanted 0 to 2");
  phasor_tensor strange = *q.get();
  strange.dtype.bits = 8;
  EXPECT_EQ(apply(rotation_of(&strange, 0)),
            "apply_rotary: q has a dtype of code 2, 8 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  strange = *q.get();
  strange.ndim = 7;
  EXPECT_EQ(apply(rotation_of(&strange, 0)), "apply_rotary: q has 7 axes, wanted 1 to 4");
  strange = *q.get();
  strange.device.device_type = 7;
  EXPECT_EQ(apply(rotation_of(&strange, 0), PHASOR_UNSUPPORTED),
            "apply_rotary: q is on a device of DLPack's kind 7, wanted memory of the CPU or of CUDA");
  strange = *q.get();
  strange.data = nullptr;
  EXPECT_EQ(apply(rotation_of(&strange, 0)), "apply_rotary: q has no memory, wanted 18 elements");
  EXPECT_EQ(q.values, before);

  phasor_scaling linear = {};
  linear.size = sizeof linear;
  linear.kind = PHASOR_SCALING_LINEAR;
  linear.beta_fast = 2;
  phasor_rotary_spec spec = spec_of(8);
  spec.scaling = &linear;
  phasor_rotary* none = nullptr;
  const auto make = [&] { return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_make(&spec, &none, error); }); };
  EXPECT_EQ(make(), "rotary_make: beta_fast is given, and LinearScaling has none, wanted 0");
  linear.kind = 12;
  EXPECT_EQ(make(), "rotary_make: the scaling's kind is 12, wanted 0 to 11");
  linear = {};
  linear.size = sizeof linear;
  linear.kind = PHASOR_SCALING_YARN;
  linear.mscale = 1;
  EXPECT_EQ(make(), "rotary_make: mscale is given and has_mscale is 0, wanted 1");
  linear.has_mscale = 2;
  EXPECT_EQ(make(), "rotary_make: has_mscale is 2, wanted 0 or 1");
  linear = {};
  linear.size = sizeof linear;
  linear.kind = PHASOR_SCALING_LINEAR;
  linear.value_count = 4;
  EXPECT_EQ(make(), "rotary_make: value_count is given, and LinearScaling has none, wanted 0");
  linear.kind = PHASOR_SCALING_NONE;
  linear.value_count = 0;
  spec.has_output_pairing = 2;
  EXPECT_EQ(make(), "rotary_make: has_output_pairing is 2, wanted 0 or 1");
  EXPECT_EQ(none, nullptr);
  phasor_text text = {};
  EXPECT_EQ(phasor_rotary_to_json(nullptr, &text, nullptr), PHASOR_INVALID);
  phasor_rotary_free(nullptr);
}

TEST(CRotary, keys_are_moved_and_tables_applied_as_in_cpp) {
  const RotaryPointer rotary = made(spec_of(8));
  const auto same = *Rotary::make({.head_dim = 8});
  const CTensor<float> keys({1, 4, 2, 8}, floats(64));
  std::vector<float> want = keys.values;
  ASSERT_TRUE(rerotate(view(want.data(), {1, 4, 2, 8}), {same, positions_from(10)}, {same, positions_from(3)}).ok());
  phasor_rerotation moved = {};
  moved.size = sizeof moved;
  moved.keys = keys.get();
  moved.from = {rotary.get(), {nullptr, 10}};
  moved.to = {rotary.get(), {nullptr, 3}};
  succeeds([&](phasor_error* error) { return phasor_rerotate(&moved, error); });
  EXPECT_EQ(keys.values, want);

  const CTensor<float> cos({1, 4, 1, 4});
  const CTensor<float> sin({1, 4, 1, 4});
  phasor_cos_sin_call tables = {};
  tables.size = sizeof tables;
  tables.cos = cos.get();
  tables.sin = sin.get();
  tables.positions.offset = 77;
  succeeds([&](phasor_error* error) { return phasor_rotary_cos_sin(rotary.get(), &tables, error); });
  ASSERT_TRUE(same.apply(view(want.data(), {1, 4, 2, 8}), positions_from(77)).ok());
  const phasor_rotation rotation = rotation_of(keys.get(), 0);
  succeeds([&](phasor_error* error) { return phasor_apply_rotary(cos.get(), sin.get(), nullptr, &rotation, error); });
  EXPECT_EQ(keys.values, want);
}

TEST(CRotary, an_empty_list_of_positions_is_no_offset) {
  const RotaryPointer rotary = made(spec_of(8));
  const CTensor<float> q({3, 8}, floats(24));
  const std::vector<float> before = q.values;
  const CTensor<std::int64_t> none({0});
  phasor_tensor at = *none.get();
  at.data = nullptr;
  phasor_rotation rotation = rotation_of(q.get(), 0);
  rotation.positions.tensor = &at;
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); }), "");
  EXPECT_EQ(q.values, before);
  const CTensor<float> empty({0, 8});
  rotation.q = empty.get();
  succeeds([&](phasor_error* error) { return phasor_rotary_apply(rotary.get(), &rotation, error); });
}

TEST(CRotary, an_empty_tensor_is_contiguous_whatever_its_strides) {
  std::int64_t shape[] = {3, 0};
  std::int64_t strides[] = {7, 5};
  phasor_tensor tensor = phasor_tensor_of(nullptr, PHASOR_I64, shape, 2);
  tensor.strides = strides;
  succeeds([&](phasor_error* error) { return c::call(error, [&] { EXPECT_EQ(c::integers_of("test", "list", &tensor).size, 0); }); });
}

TEST(CRotary, gradients_are_those_of_cpp) {
  const RotaryPointer rotary = made(spec_of(8));
  const auto same = *Rotary::make({.head_dim = 8});
  const CTensor<float> rotated({1, 5, 2, 8}, floats(80));
  const CTensor<float> gradient({1, 5, 2, 8}, floats(80, 2));
  const CTensor<double> phase({1, 5, 1, 4});
  phasor_phase_gradient_call by_phase = {};
  by_phase.size = sizeof by_phase;
  by_phase.out = phase.get();
  by_phase.rotated = rotated.get();
  by_phase.gradient = gradient.get();
  succeeds([&](phasor_error* error) { return phasor_phase_gradient(&by_phase, error); });
  const CTensor<double> sum({4}, {1, 2, 3, 4});
  phasor_frequency_gradient_call by_frequency = {};
  by_frequency.size = sizeof by_frequency;
  by_frequency.sum = sum.get();
  by_frequency.phase_gradient = phase.get();
  by_frequency.positions.offset = 3;
  succeeds([&](phasor_error* error) { return phasor_rotary_frequency_gradient(rotary.get(), &by_frequency, error); });
  const CTensor<double> at({5});
  phasor_position_gradient_call by_position = {};
  by_position.size = sizeof by_position;
  by_position.out = at.get();
  by_position.phase_gradient = phase.get();
  succeeds([&](phasor_error* error) { return phasor_rotary_position_gradient(rotary.get(), &by_position, error); });

  std::vector<double> want_phase(20);
  std::vector<double> want_sum = {1, 2, 3, 4};
  std::vector<double> want_at(5);
  const TensorView phases = view(want_phase.data(), {1, 5, 1, 4});
  std::vector<float> y = rotated.values;
  std::vector<float> g = gradient.values;
  ASSERT_TRUE(phase_gradient(phases, view(y.data(), {1, 5, 2, 8}), view(g.data(), {1, 5, 2, 8})).ok());
  ASSERT_TRUE(same.frequency_gradient(view(want_sum.data(), {1, 1, 1, 4}), phases, positions_from(3)).ok());
  ASSERT_TRUE(same.position_gradient(positions(want_at.data(), 1, 1, 5), phases).ok());
  EXPECT_EQ(phase.values, want_phase);
  EXPECT_EQ(sum.values, want_sum);
  EXPECT_EQ(at.values, want_at);

  by_phase.gradient = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_phase_gradient(&by_phase, error); }),
            "phase_gradient: gradient is null, wanted one");
  by_phase.gradient = gradient.get();
  by_phase.rotated = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_phase_gradient(&by_phase, error); }),
            "phase_gradient: rotated is null, wanted one");
  by_frequency.phase_gradient = nullptr;
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_frequency_gradient(rotary.get(), &by_frequency, error); }),
      "frequency_gradient: phase_gradient is null, wanted one");
  by_position.phase_gradient = nullptr;
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_position_gradient(rotary.get(), &by_position, error); }),
      "position_gradient: phase_gradient is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_position_gradient(rotary.get(), nullptr, error); }),
            "position_gradient: the call is null, wanted one");
}

TEST(CRotary, messages_of_moved_keys_name_the_fields) {
  const RotaryPointer rotary = made(spec_of(8));
  const CTensor<float> keys({1, 4, 2, 8}, floats(64));
  const CTensor<std::int32_t> integers({1, 4, 2, 8});
  phasor_rerotation moved = {};
  moved.size = sizeof moved;
  moved.keys = keys.get();
  moved.to.rotary = rotary.get();
  const auto refused = [&] { return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rerotate(&moved, error); }); };
  EXPECT_EQ(refused(), "rerotate: from.rotary is null, wanted one");
  moved.from.rotary = rotary.get();
  moved.out = integers.get();
  EXPECT_EQ(refused(), "rerotate: out has a dtype of code 0, 32 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  const std::string bias = *spec_to_json(BiasSpec(Alibi{.heads = 4}));
  const std::vector<std::byte> bytes = *cbor_of_json(bias);
  phasor_rotary* none = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* error) {
                      return phasor_rotary_from_cbor(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), &none, error);
                    }),
            "rotary_from_cbor: the bytes are a spec of another type, wanted RotarySpec");
}

}  // namespace
}  // namespace phasor::test
