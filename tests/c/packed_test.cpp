// SPDX-License-Identifier: Apache-2.0
// Packed rows of q, k and v in C: unpacked as C++ does, and prepared in place.

#include "c/prepare_support.hpp"

namespace phasor::test {
namespace {

TEST(CPrepare, a_packed_row_is_rotated_in_place_by_the_rotary_of_each_token) {
  constexpr std::int64_t kRow = 3 + (kHeads + 2) * kDim;
  const CTensor<float> packed({1, kTokens, 1, kRow}, sample(kTokens * kRow));
  const CTensor<std::int64_t> spec_of({kTokens}, {0, 1, 1, 0, 1, 0});
  std::vector<float> want = packed.values;
  const std::vector<Rotary> same = {*Rotary::make({.head_dim = kDim, .base = 500}), *Rotary::make({.head_dim = kDim, .base = 900})};
  const TensorView all = view(want.data(), {1, kTokens, 1, kRow});
  const PrepareInputs parts = unpack_qkv(all, {kHeads, 1, kDim, 3});
  const auto in_place = [](const ConstTensorView& part) {
    return tensor_cache({const_cast<void*>(part.data), part.dtype, part.shape, part.strides, part.device});
  };
  const Status status = prepare_attention(parts, {same, positions_from(77), integers(spec_of.values.data(), kTokens)},
                                          {in_place(parts.q), in_place(parts.k), in_place(parts.v), {}});
  ASSERT_TRUE(status.ok()) << status.message();

  auto heads = sized<phasor_packed_heads>();
  heads.q_heads = kHeads;
  heads.k_heads = 1;
  heads.head_dim = kDim;
  heads.first = 3;
  auto qkv = sized<phasor_unpacked_qkv>();
  succeeds([&](phasor_error* error) { return phasor_unpack_qkv(packed.get(), &heads, &qkv, error); });
  EXPECT_EQ(qkv.size, sizeof qkv);
  EXPECT_EQ(qkv.v.shape, qkv.shapes[2]);
  auto inputs = sized<phasor_prepare_inputs>();
  inputs.q = &qkv.q;
  inputs.k = &qkv.k;
  inputs.v = &qkv.v;
  phasor_cache_view views[3] = {sized<phasor_cache_view>(), sized<phasor_cache_view>(), sized<phasor_cache_view>()};
  const phasor_tensor* const tensors[] = {&qkv.q, &qkv.k, &qkv.v};
  for (int i = 0; i < 3; ++i) succeeds([&](phasor_error* error) { return phasor_tensor_cache(tensors[i], &views[i], error); });
  auto outputs = sized<phasor_prepare_outputs>();
  outputs.q.first = &views[0];
  outputs.k.first = &views[1];
  outputs.v.first = &views[2];
  const RotaryPointer first = rotary_of(kDim, 500), second = rotary_of(kDim, 900);
  const phasor_rotary* const rotaries[] = {first.get(), second.get()};
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.list = {rotaries, 2, spec_of.get()};
  rotation.positions.offset = 77;
  succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &outputs, nullptr, error); });
  EXPECT_EQ(packed.values, want);

  heads.k_heads = 2;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_unpack_qkv(packed.get(), &heads, &qkv, error); }),
            "unpack_qkv: 3 + 2 x 2 heads of 16 channels from channel 3 on, wanted what fits in rows of 83");
  heads.k_heads = 1;
  qkv.size = sizeof qkv - 8;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_unpack_qkv(packed.get(), &heads, &qkv, error); }),
            "unpack_qkv: the size of qkv is " + std::to_string(sizeof qkv - 8) + ", wanted at least " + std::to_string(sizeof qkv));
}

TEST(CPrepare, packed_rows_may_lack_the_axis_of_heads_and_no_other_axis_is_taken_for_it) {
  constexpr std::int64_t kRow = 12;
  auto heads = sized<phasor_packed_heads>();
  heads.q_heads = 2;
  heads.k_heads = 1;
  heads.head_dim = 3;
  auto qkv = sized<phasor_unpacked_qkv>();
  struct Case {
    std::vector<std::int64_t> shape;
    std::int64_t batch, tokens;
  };
  for (const Case& of : {Case{{2, 5, 1, kRow}, 2, 5}, Case{{2, 5, kRow}, 2, 5}, Case{{5, kRow}, 1, 5}, Case{{kRow}, 1, 1}}) {
    const CTensor<float> packed(of.shape);
    succeeds([&](phasor_error* error) { return phasor_unpack_qkv(packed.get(), &heads, &qkv, error); });
    const std::vector<std::int64_t> want = {of.batch, of.tokens, 1, 3};
    EXPECT_EQ(std::vector<std::int64_t>(qkv.v.shape, qkv.v.shape + 4), want) << of.shape.size();
    EXPECT_EQ(qkv.q.shape[2], 2);
    EXPECT_EQ(qkv.v.data, packed.values.data() + 9);
    EXPECT_TRUE(of.tokens == 1 || qkv.v.strides[1] == kRow);
    EXPECT_TRUE(of.batch == 1 || qkv.v.strides[0] == 5 * kRow);
  }
  const auto refused = [&](const phasor_tensor* packed) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_unpack_qkv(packed, &heads, &qkv, error); });
  };
  const CTensor<float> split({2, 5, 4, kRow});
  EXPECT_EQ(refused(split.get()), "unpack_qkv: packed has 4 heads and stride 1 on its last axis, wanted 1 and 1");
  const CTensor<float> wide({5, 2 * kRow});
  phasor_tensor spread = *wide.get();
  std::int64_t shape[] = {5, kRow}, strides[] = {2 * kRow, 2};
  spread.shape = shape;
  spread.strides = strides;
  EXPECT_EQ(refused(&spread), "unpack_qkv: packed has 1 heads and stride 2 on its last axis, wanted 1 and 1");
}

}  // namespace
}  // namespace phasor::test
