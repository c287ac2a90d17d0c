// SPDX-License-Identifier: Apache-2.0
// Layouts are strides: every way a q and a k can lie in memory gives the reference's bits, and nothing else in that memory changes.
#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

using RotaryLayout = EveryTarget;

/// One operand of a call and what its memory must be afterwards.
template <class T>
struct Checked {
  Tensor<T> is;
  Tensor<T> wanted;
};

struct Shape {
  Extents shape;
  Extents strides;
};

RotarySpec odd_spec() {
  RotarySpec spec;
  spec.head_dim = 41;
  spec.rotary_width = 38;
  spec.rotary_offset = 1;
  return spec;
}

template <class T>
Checked<T> prepare(const Rotary& rotary, const Shape& layout, const Where& where, std::uint64_t seed) {
  const reference::Geometry g = geometry_of(rotary.spec());
  Tensor<T> x(layout.shape, layout.strides, seed);
  x.with_numbers(g.offset, g.width, seed + 1);
  Tensor<T> wanted = x;
  rotate_reference(wanted, wanted, g, rows_of<typename Element<T>::Value>(rotary, where));
  return {x, wanted};
}

/// q and k in place, in one call and then q alone.
template <class T>
void check_in_place(const RotarySpec& spec, const Shape& q_layout, const Shape& k_layout, const Where& where) {
  const Rotary rotary = make_rotary(spec);
  Checked<T> q = prepare<T>(rotary, q_layout, where, 21);
  Checked<T> k = prepare<T>(rotary, k_layout, where, 22);
  Tensor<T> alone = q.is;
  const Status both = rotary.apply(q.is.view(), k.is.view(), where.positions);
  ASSERT_TRUE(both.ok()) << both.message();
  EXPECT_TRUE(same_bits(q.is.memory, q.wanted.memory)) << "q";
  EXPECT_TRUE(same_bits(k.is.memory, k.wanted.memory)) << "k";
  ASSERT_TRUE(rotary.apply(alone.view(), where.positions).ok());
  EXPECT_TRUE(same_bits(alone.memory, q.wanted.memory)) << "q alone";
}

/// From one layout into another, both outputs at once.
template <class T>
void check_out_of_place(const RotarySpec& spec, const Shape& from, const Shape& to, const Where& where) {
  const Rotary rotary = make_rotary(spec);
  const auto rows = rows_of<typename Element<T>::Value>(rotary, where);
  const reference::Geometry g = geometry_of(spec);
  Tensor<T> q(from.shape, from.strides, 23);
  Tensor<T> k(from.shape, from.strides, 24);
  q.with_numbers(g.offset, g.width, 25);
  k.with_numbers(g.offset, g.width, 26);
  const Tensor<T> q_before = q;
  Tensor<T> q_out(to.shape, to.strides, 27);
  Tensor<T> k_out(to.shape, to.strides, 28);
  Tensor<T> q_wanted = q_out;
  Tensor<T> k_wanted = k_out;
  rotate_reference(q, q_wanted, g, rows);
  rotate_reference(k, k_wanted, g, rows);
  const Status status = rotary.apply({q.view(), q_out.view()}, {k.view(), k_out.view()}, where.positions);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(q_out.memory, q_wanted.memory)) << "q";
  EXPECT_TRUE(same_bits(k_out.memory, k_wanted.memory)) << "k";
  EXPECT_TRUE(same_bits(q.memory, q_before.memory)) << "q's input";
}

Shape bthd(const Extents& shape) { return {shape, contiguous_strides(shape)}; }
/// (B, H, T, D) memory seen as (B, T, H, D).
Shape bhtd(const Extents& shape) { return {shape, {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}}; }
/// Gaps after every head, token and batch row.
Shape gaps(const Extents& shape) {
  const std::int64_t head = shape[3] + 3;
  const std::int64_t token = shape[2] * head + 5;
  return {shape, {shape[1] * token + 7, token, head, 1}};
}
/// Every axis but the last runs backwards.
Shape backwards(const Extents& shape) {
  Shape layout = gaps(shape);
  for (std::size_t i = 0; i < 3; ++i) layout.strides[i] = -layout.strides[i];
  return layout;
}

TEST_F(RotaryLayout, q_and_k_with_heads_and_strides_of_their_own_are_the_reference) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      const Extents q = {3, 5, 7, 41};
      const Extents k = {3, 5, 1, 41};
      const Where where = {positions_from(1000), 1, 5};
      check_in_place<T>(odd_spec(), bthd(q), bhtd(k), where);
      check_in_place<T>(odd_spec(), bhtd(q), gaps(k), where);
      check_in_place<T>(odd_spec(), gaps(q), backwards(k), where);
      check_in_place<T>(odd_spec(), backwards(q), bthd(k), where);
    });
  });
}

TEST_F(RotaryLayout, one_layout_may_be_read_and_another_written) {
  on_every_target([] {
    for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      const Extents shape = {2, 3, 3, 41};
      const Where where = {positions_from(-2), 1, 3};
      RotarySpec spec = odd_spec();
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        spec.output_pairing = pairing;
        check_out_of_place<T>(spec, bthd(shape), bhtd(shape), where);
        check_out_of_place<T>(spec, backwards(shape), gaps(shape), where);
        check_out_of_place<T>(spec, gaps(shape), backwards(shape), where);
      }
    });
  });
}

TEST_F(RotaryLayout, an_input_shared_by_every_head_and_batch_row_is_read_with_stride_0) {
  on_every_target([] {
    const Extents shape = {2, 3, 5, 41};
    Shape shared = bthd(shape);
    shared.strides = {0, 41, 0, 1};
    check_out_of_place<float>(odd_spec(), shared, bthd(shape), {positions_from(9), 1, 3});
  });
}

TEST_F(RotaryLayout, strides_of_axes_with_one_element_do_not_matter) {
  on_every_target([] {
    const Shape odd = {{1, 1, 1, 41}, {0, -5, 123456789, 1}};
    check_out_of_place<BFloat16>(odd_spec(), odd, odd, {positions_from(9), 1, 1});
  });
}

/// Packed QKV: q of 3 heads, k of 1, v of 1 in each token's row.
template <class T>
void check_packed() {
  const Rotary rotary = make_rotary(odd_spec());
  const reference::Geometry g = geometry_of(odd_spec());
  const Extents all = {2, 5, 5, 41};
  Tensor<T> packed(all, 31);
  packed.with_numbers(g.offset, g.width);
  const Where where = {positions_from(70000), 1, 5};
  const auto rows = rows_of<typename Element<T>::Value>(rotary, where);
  Tensor<T> turned = packed;
  rotate_reference(packed, turned, g, rows);
  Tensor<T> wanted = packed;
  packed.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    if (h < 4) wanted.set_head(b, t, h, turned.head(b, t, h));  // v stays
  });
  TensorView q = packed.view();
  TensorView k = packed.view();
  q.shape[2] = 3;
  k.shape[2] = 1;
  k.data = static_cast<T*>(k.data) + 3 * 41;
  const Status status = rotary.apply(q, k, where.positions);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(packed.memory, wanted.memory));
}

TEST_F(RotaryLayout, slices_of_one_packed_qkv_are_rotated_and_v_stays) {
  on_every_target([] { for_each_dtype([](auto tag) { check_packed<typename decltype(tag)::type>(); }); });
}

TEST_F(RotaryLayout, a_tensor_without_batch_rows_or_tokens_is_left_alone) {
  on_every_target([] {
    const Rotary rotary = make_rotary(odd_spec());
    std::vector<float> table(19);
    for (const Extents& shape : {Extents{0, 5, 3, 41}, Extents{2, 0, 3, 41}, Extents{0, 0, 1, 41}}) {
      const TensorView nothing = {nullptr, DType::f32, shape, contiguous_strides(shape)};
      EXPECT_TRUE(rotary.apply(nothing, positions_from(3)).ok());
      EXPECT_TRUE(rotary.apply(nothing, nothing, positions_from(3)).ok());
      const Extents rows = {1, shape[1], 1, 19};
      const ConstTensorView no_table = {table.data(), DType::f32, rows, {0, 0, 0, 1}};
      EXPECT_TRUE(apply_rotary(nothing, no_table, no_table, {.rotary_width = 38}).ok());
    }
    const Extents no_rows = {1, 0, 1, 19};
    const TensorView none = {nullptr, DType::f32, no_rows, contiguous_strides(no_rows)};
    EXPECT_TRUE(rotary.cos_sin(positions_from(0), none, none).ok());
  });
}

TEST_F(RotaryLayout, an_empty_tensor_may_have_any_extents_and_strides_besides) {
  const Rotary rotary = make_rotary(odd_spec());
  constexpr std::int64_t huge = std::int64_t{1} << 56;
  const TensorView nothing = {nullptr, DType::f64, {0, 5, huge, 41}, {INT64_MAX, INT64_MIN, huge * 2, 1}};
  EXPECT_TRUE(rotary.apply(nothing, positions_from(3)).ok());
}

}  // namespace
}  // namespace phasor::test
