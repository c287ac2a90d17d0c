// SPDX-License-Identifier: Apache-2.0
// prepare_attention in C: bitwise what the C++ functions write, into caches of engines and back.
#include <algorithm>
#include <cstring>
#include <set>

#include "c/prepare_support.hpp"

namespace phasor::test {
namespace {

/// A norm of every kind and every other field away from its default.
struct Norms {
  phasor_head_norm q = sized<phasor_head_norm>(), k = q, v = q;
  phasor_prepare_spec spec = sized<phasor_prepare_spec>();
  PrepareSpec same;

  explicit Norms(const Step& step)
      : same{.q_norm = {.kind = HeadNorm::Kind::rms,
                        .weight_as = HeadNorm::Weight::one_plus,
                        .cast = HeadNorm::Cast::before_weight,
                        .epsilon = 0,
                        .weight = view_of(step.weight, {1, 1, kHeads, 10}),
                        .width = 10},
             .k_norm = {.kind = HeadNorm::Kind::l2},
             .v_norm = {.kind = HeadNorm::Kind::l2, .over = HeadNorm::Over::all_heads},
             .order = PrepareSpec::Order::rotation_first,
             .between = PrepareSpec::Between::kept,
             .query_scale = 0.125F} {
    q.kind = PHASOR_NORM_RMS;
    q.weight_as = PHASOR_WEIGHT_ONE_PLUS;
    q.cast = PHASOR_CAST_BEFORE_WEIGHT;
    q.has_epsilon = 1;
    q.weight = step.weight.get();
    q.width = 10;
    k.kind = v.kind = PHASOR_NORM_L2;
    v.over = PHASOR_NORM_OVER_ALL_HEADS;
    spec.q_norm = &q;
    spec.k_norm = &k;
    spec.v_norm = &v;
    spec.order = PHASOR_PREPARE_ROTATION_FIRST;
    spec.between = PHASOR_BETWEEN_KEPT;
    spec.has_query_scale = 1;
    spec.query_scale = 0.125F;
  }
  Norms(const Norms&) = delete;
  Norms& operator=(const Norms&) = delete;
};

/// Outputs of C in a cache of float8 with scales made for k and given for v.
struct Quantised {
  CTensor<float> q{{1, kTokens, kHeads, kDim}};
  CTensor<std::int64_t> slots{{kTokens}, {5, -1, 0, 11, 7, 2}};
  std::vector<std::byte> cache = std::vector<std::byte>(2 * kBlocks * kBlock * kDim);
  std::vector<float> scales = std::vector<float>(kBlocks * kBlock);
  phasor_cache_view q_view = sized<phasor_cache_view>(), k_view = q_view, v_view = q_view;
  phasor_token_places places = sized<phasor_token_places>();
  phasor_prepare_outputs outputs = sized<phasor_prepare_outputs>();

  Quantised() {
    succeeds([&](phasor_error* error) { return phasor_tensor_cache(q.get(), &q_view, error); });
    auto memory = sized<phasor_cache_memory>();
    memory.data = cache.data();
    memory.blocks = kBlocks;
    memory.block = kBlock;
    memory.heads = kKeyHeads;
    memory.head_dim = kDim;
    memory.storage = PHASOR_STORAGE_F8_E4M3;
    succeeds([&](phasor_error* error) { return phasor_vllm_flash_cache(&memory, &k_view, &v_view, error); });
    k_view.scales.kind = PHASOR_SCALES_MADE;
    k_view.scales.data = scales.data();
    std::fill_n(k_view.scales.strides, 4, 1);
    k_view.scales.strides[0] = kBlock;
    v_view.scales.kind = PHASOR_SCALES_GIVEN;
    v_view.scales.use = PHASOR_SCALES_USE_MULTIPLY;
    v_view.scales.value = 3;
    places.kind = PHASOR_PLACES_SLOTS;
    places.slots = slots.get();
    outputs.q.first = &q_view;
    outputs.k.first = &k_view;
    outputs.v.first = &v_view;
    outputs.places = &places;
  }
};

TEST(CPrepare, norm_rotation_and_quantised_cache_are_those_of_cpp) {
  const Step step;
  const Norms norms(step);
  const Quantised to;
  std::vector<std::byte> want_cache(to.cache.size());
  std::vector<float> want_scales(to.scales.size()), want_q(288);
  CachePair pair = vllm_flash_cache(want_cache.data(), Storage::f8_e4m3, {kBlocks, kBlock, kKeyHeads, kDim});
  pair.k.scales = {.kind = CacheScales::Kind::made, .data = want_scales.data(), .strides = {kBlock, 1, 1, 1}};
  pair.v.scales = {.kind = CacheScales::Kind::given, .use = CacheScales::Use::multiply, .value = 3};
  const auto same = *Rotary::make({.head_dim = kDim, .base = 500});
  const TokenPlaces places = {.kind = TokenPlaces::Kind::slots, .slots = integers(to.slots.values.data(), kTokens)};
  const Status status = prepare_attention(step.same_inputs(), {{&same, 1}, step.positions(), {}},
                                          {tensor_cache(view(want_q.data(), kQ)), pair.k, pair.v, places}, norms.same);
  ASSERT_TRUE(status.ok()) << status.message();

  const RotaryPointer rotary = rotary_of(kDim, 500);
  const phasor_rotary* const one = rotary.get();
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.list = {&one, 1, nullptr};
  rotation.positions.tensor = step.at.get();
  const phasor_prepare_inputs inputs = step.inputs();
  succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &to.outputs, &norms.spec, error); });
  EXPECT_EQ(to.q.values, want_q);
  EXPECT_EQ(to.cache, want_cache);
  EXPECT_EQ(to.scales, want_scales);
  EXPECT_NE(to.cache, std::vector<std::byte>(to.cache.size()));
}

TEST(CPrepare, every_choice_of_a_norm_rounds_where_cpp_rounds) {
  const std::vector<float> x = sample(72), w = sample(24, 2);
  const auto rounded = [](const std::vector<float>& from) {
    std::vector<BFloat16> to(from.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::uint32_t bits = 0;  // no std::bit_cast: Emscripten's libc++ lacks it
      std::memcpy(&bits, &from[i], sizeof bits);
      to[i].bits = static_cast<std::uint16_t>(bits >> 16);
    }
    return to;
  };
  const CTensor<BFloat16> weight({1, 1, 3, 8}, rounded(w));
  const RotaryPointer rotary = rotary_of(8, 0);
  const phasor_rotary* const one = rotary.get();
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.list = {&one, 1, nullptr};
  const auto same = *Rotary::make({.head_dim = 8});
  std::set<std::vector<std::uint16_t>> results;
  for (int choice = 0; choice < 32; ++choice) {
    const auto bit = [&](int n) { return choice >> n & 1; };
    const CTensor<BFloat16> q({1, 3, 3, 8}, rounded(x));
    auto norm = sized<phasor_head_norm>();
    norm.kind = 1 + bit(0);
    norm.weight_as = bit(1);
    norm.cast = bit(2);
    norm.over = bit(4) == 0 ? bit(3) : 0;
    norm.weight = weight.get();
    auto spec = sized<phasor_prepare_spec>();
    spec.q_norm = &norm;
    spec.between = bit(3);
    spec.order = bit(4);
    auto to = sized<phasor_cache_view>();
    succeeds([&](phasor_error* error) { return phasor_tensor_cache(q.get(), &to, error); });
    auto inputs = sized<phasor_prepare_inputs>();
    inputs.q = q.get();
    auto outputs = sized<phasor_prepare_outputs>();
    outputs.q.first = &to;
    std::vector<BFloat16> want = q.values;
    const TensorView all = view(want.data(), {1, 3, 3, 8});
    const PrepareSpec same_spec = {.q_norm = {.kind = static_cast<HeadNorm::Kind>(norm.kind),
                                              .over = static_cast<HeadNorm::Over>(norm.over),
                                              .weight_as = static_cast<HeadNorm::Weight>(norm.weight_as),
                                              .cast = static_cast<HeadNorm::Cast>(norm.cast),
                                              .weight = view_of(weight, {1, 1, 3, 8})},
                                   .order = static_cast<PrepareSpec::Order>(spec.order),
                                   .between = static_cast<PrepareSpec::Between>(spec.between)};
    const Status status = prepare_attention({all, {}, {}, {}}, {{&same, 1}, {}, {}}, {tensor_cache(all), {}, {}, {}}, same_spec);
    ASSERT_TRUE(status.ok()) << status.message();
    succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &outputs, &spec, error); });
    EXPECT_TRUE(equal_bits(q.values, want)) << choice;
    std::vector<std::uint16_t> bits(want.size());
    std::transform(want.begin(), want.end(), bits.begin(), [](BFloat16 value) { return value.bits; });
    results.insert(bits);
  }
  EXPECT_GT(results.size(), 24U);
}

TEST(CPrepare, a_latent_head_goes_to_the_two_parts_of_its_cache) {
  const CTensor<BFloat16> k({1, 4, 1, 576});
  for (std::size_t i = 0; i < k.values.size(); ++i) const_cast<BFloat16&>(k.values[i]).bits = static_cast<std::uint16_t>(0x3f00 + i % 101);
  std::vector<std::byte> want(2 * 3 * 656), cache(want.size());
  const CTensor<std::int32_t> starts({1}, {0});
  const CTensor<std::int32_t> indptr({2}, {0, 2}), indices({2}, {1, 0}), at({4}, {1, 2, 3, 4});
  PrepareInputs same_inputs;
  same_inputs.k = view_of(k, {1, 4, 1, 576});
  const Status status = prepare_attention(same_inputs, {},
                                          {{},
                                           mla_656_cache(want.data(), 2, 3),
                                           {},
                                           {.kind = TokenPlaces::Kind::pages,
                                            .indptr = integers(indptr.values.data(), 2),
                                            .indices = integers(indices.values.data(), 2),
                                            .places = integers(at.values.data(), 4)}});
  ASSERT_TRUE(status.ok()) << status.message();

  auto memory = sized<phasor_cache_memory>();
  memory.data = cache.data();
  memory.blocks = 2;
  memory.block = 3;
  auto latent = sized<phasor_cache_view>(), rotated = latent;
  succeeds([&](phasor_error* error) { return phasor_mla_656_cache(&memory, &latent, &rotated, error); });
  auto places = sized<phasor_token_places>();
  places.kind = PHASOR_PLACES_PAGES;
  places.on_gpu = PHASOR_PLACES_CHECKED;  // a CPU checks in any case
  places.indptr = indptr.get();
  places.indices = indices.get();
  places.places = at.get();
  auto outputs = sized<phasor_prepare_outputs>();
  outputs.k = {&latent, &rotated};
  outputs.places = &places;
  auto inputs = sized<phasor_prepare_inputs>();
  inputs.k = k.get();
  succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, nullptr, &outputs, nullptr, error); });
  EXPECT_EQ(cache, want);
  EXPECT_NE(cache, std::vector<std::byte>(cache.size()));
  places.indptr = nullptr;  // the same as a page table
  places.pages_per_request = 2;
  std::fill(cache.begin(), cache.end(), std::byte{0});
  succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, nullptr, &outputs, nullptr, error); });
  EXPECT_EQ(cache, want);
  const std::vector<std::byte> before = cache;
  const auto refused = [&] {
    return failure(PHASOR_INVALID,
                   [&](phasor_error* error) { return phasor_prepare_attention(&inputs, nullptr, &outputs, nullptr, error); });
  };
  places.starts = starts.get();
  EXPECT_EQ(refused(), "prepare_attention: starts is given, and places of this kind have none, wanted NULL");
  places.starts = nullptr;
  places.kind = PHASOR_PLACES_IN_ORDER;
  EXPECT_EQ(refused(), "prepare_attention: indices is given, and places of this kind have none, wanted NULL");
  places.kind = 3;
  EXPECT_EQ(refused(), "prepare_attention: the places' kind is 3, wanted 0 to 2");
  outputs.k.first = nullptr;
  EXPECT_EQ(refused(),
            "prepare_attention: the second part of the cache of k is given and the first is null, wanted both or the first alone");
  EXPECT_EQ(cache, before);
}

TEST(CPrepare, q_may_begin_its_rotation_elsewhere_and_k_its_row_of_the_cache) {
  const CTensor<std::int64_t> starts({1}, {2});
  const CTensor<float> cache({1, 5, 1, 8});
  const CTensor<float> q({1, 2, 1, 12}, sample(24)), k({1, 2, 1, 8}, sample(16, 2));
  std::vector<float> want_q = q.values, want_k(40);
  const auto same = *Rotary::make({.head_dim = 8});
  const TensorView all_q = view(want_q.data(), {1, 2, 1, 12}), all_k = view_of(k, {1, 2, 1, 8});
  const Status status = prepare_attention(
      {all_q, all_k, {}, {}}, {{&same, 1}, positions_from(5), {}},
      {tensor_cache(all_q), tensor_cache(view(want_k.data(), {1, 5, 1, 8})), {}, {.starts = integers(starts.values.data(), 1)}},
      {.q_rotary_offset = 4});
  ASSERT_TRUE(status.ok()) << status.message();
  auto spec = sized<phasor_prepare_spec>();
  spec.has_q_rotary_offset = 1;
  spec.q_rotary_offset = 4;
  auto inputs = sized<phasor_prepare_inputs>();
  inputs.q = q.get();
  inputs.k = k.get();
  auto q_view = sized<phasor_cache_view>(), k_view = q_view;
  succeeds([&](phasor_error* error) { return phasor_tensor_cache(q.get(), &q_view, error); });
  succeeds([&](phasor_error* error) { return phasor_tensor_cache(cache.get(), &k_view, error); });
  auto outputs = sized<phasor_prepare_outputs>();
  outputs.q.first = &q_view;
  outputs.k.first = &k_view;
  auto places = sized<phasor_token_places>();
  places.starts = starts.get();
  outputs.places = &places;
  const RotaryPointer rotary = rotary_of(8, 0);
  const phasor_rotary* const one = rotary.get();
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.list = {&one, 1, nullptr};
  rotation.positions.offset = 5;
  succeeds([&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &outputs, &spec, error); });
  EXPECT_EQ(q.values, want_q);
  EXPECT_EQ(cache.values, want_k);
}

TEST(CPrepare, given_tables_are_those_of_cpp) {
  const Step step;
  const CTensor<float> cos({1, kTokens, 1, kDim}, sample(96, 9)), sin({1, kTokens, 1, kDim}, sample(96, 10));
  const Extents table = {1, kTokens, 1, kDim};
  PrepareRotation same;
  same.cos = view_of(cos, table);
  same.sin = view_of(sin, table);
  same.layout = {.pairing = Pairing::interleaved, .sense = Sense::clockwise};
  std::vector<float> want(288);
  const Status status = prepare_attention({view_of(step.q, kQ), {}, {}, {}}, same, {tensor_cache(view(want.data(), kQ)), {}, {}, {}});
  ASSERT_TRUE(status.ok()) << status.message();

  auto layout = sized<phasor_table_layout>();
  layout.pairing = PHASOR_PAIRING_INTERLEAVED;
  layout.sense = PHASOR_CLOCKWISE;
  auto rotation = sized<phasor_prepare_rotation>();
  rotation.cos = cos.get();
  rotation.sin = sin.get();
  rotation.layout = &layout;
  const CTensor<float> q({1, kTokens, kHeads, kDim});
  auto to = sized<phasor_cache_view>();
  succeeds([&](phasor_error* error) { return phasor_tensor_cache(q.get(), &to, error); });
  auto inputs = sized<phasor_prepare_inputs>();
  inputs.q = step.q.get();
  auto outputs = sized<phasor_prepare_outputs>();
  outputs.q.first = &to;
  const auto prepare = [&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &outputs, nullptr, error); };
  rotation.sin = nullptr;
  EXPECT_NE(failure(PHASOR_INVALID, prepare).find("one of cos and sin is given"), std::string::npos);
  EXPECT_EQ(q.values, std::vector<float>(288));
  rotation.sin = sin.get();
  succeeds(prepare);
  EXPECT_EQ(q.values, want);
  // A struct of an older program ends before the tables: nothing is turned by them.
  rotation.size = offsetof(phasor_prepare_rotation, cos);
  succeeds(prepare);
  EXPECT_EQ(q.values, step.q.values);
}

TEST(CPrepare, bad_arguments_are_refused_and_nothing_is_written) {
  const Step step;
  const std::vector<float> before = step.q.values;
  phasor_prepare_inputs inputs = step.inputs();
  auto q_view = sized<phasor_cache_view>();
  succeeds([&](phasor_error* error) { return phasor_tensor_cache(step.q.get(), &q_view, error); });
  auto outputs = sized<phasor_prepare_outputs>();
  outputs.q.first = &q_view;
  auto spec = sized<phasor_prepare_spec>();
  auto rotation = sized<phasor_prepare_rotation>();
  const auto refused = [&] {
    return failure(PHASOR_INVALID,
                   [&](phasor_error* error) { return phasor_prepare_attention(&inputs, &rotation, &outputs, &spec, error); });
  };
  EXPECT_NE(refused(), "");  // k and v go nowhere
  inputs.k = inputs.v = nullptr;
  auto norm = sized<phasor_head_norm>();
  spec.q_norm = &norm;
  norm.epsilon = 1e-5F;
  EXPECT_EQ(refused(), "prepare_attention: epsilon is given, and a head without a norm has none, wanted 0");
  norm.kind = PHASOR_NORM_RMS;
  EXPECT_EQ(refused(), "prepare_attention: epsilon is given and has_epsilon is 0, wanted 1");
  norm.kind = 3;
  EXPECT_EQ(refused(), "prepare_attention: the norm's kind is 3, wanted 0 to 2");
  spec.q_norm = nullptr;
  spec.query_scale = 2;
  EXPECT_EQ(refused(), "prepare_attention: query_scale is given and has_query_scale is 0, wanted 1");
  spec.query_scale = 0;
  spec.order = 2;
  EXPECT_EQ(refused(), "prepare_attention: order is 2, wanted 0 to 1");
  spec.order = 0;
  rotation.list.count = 1;
  EXPECT_EQ(refused(), "prepare_attention: the list's rotaries is null, wanted one");
  rotation.list.count = 0;
  q_view.scales.group = 4;
  EXPECT_EQ(refused(), "prepare_attention: scales.group is given, and a cache without scales has none, wanted 0");
  q_view.scales.group = 0;
  q_view.scales.reserved = 1;
  EXPECT_EQ(refused(), "prepare_attention: `reserved` of the scales is 1, wanted 0");
  q_view.scales.reserved = 0;
  q_view.storage = 9;
  EXPECT_EQ(refused(), "prepare_attention: storage is 9, wanted 0 to 5");
  outputs.size = 0;
  EXPECT_NE(refused().find("the size of the outputs is 0"), std::string::npos);
  EXPECT_EQ(phasor_prepare_attention(nullptr, nullptr, nullptr, nullptr, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_prepare_attention_backward(&inputs, nullptr, nullptr, nullptr, nullptr), PHASOR_INVALID);
  auto gradients = sized<phasor_prepare_gradients>();
  EXPECT_EQ(phasor_prepare_attention_backward_workspace(&inputs, &gradients, nullptr, nullptr, nullptr), PHASOR_INVALID);
  EXPECT_EQ(step.q.values, before);
}

}  // namespace
}  // namespace phasor::test
