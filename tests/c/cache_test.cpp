// SPDX-License-Identifier: Apache-2.0
// Caches in C: every layout is the view that C++ gives, and every field goes both ways.
#include <tuple>

#include "c/call_support.hpp"
#include "phasor/cache.hpp"
#include "phasor/phasor.h"
#include "specs/cache.hpp"

namespace phasor::test {
namespace {

auto parts_of(const CacheView& view) {
  const CacheScales& s = view.scales;
  return std::tuple(view.data, view.storage, view.shape, view.strides, view.layer, view.first_channel, view.device.kind, view.device.index,
                    s.kind, s.use, s.encoding, s.value, s.data, s.strides, s.group, s.least);
}
phasor_cache_view empty_view() {
  phasor_cache_view view = {};
  view.size = sizeof view;
  return view;
}
phasor_cache_memory memory_at(void* data) {
  phasor_cache_memory memory = {};
  memory.size = sizeof memory;
  memory.data = data;
  memory.blocks = 4;
  memory.block = 3;
  memory.heads = 5;
  memory.head_dim = 16;
  memory.storage = PHASOR_STORAGE_BF16;
  return memory;
}
void expect_view(const phasor_cache_view& view, const CacheView& want) {
  EXPECT_EQ(view.size, sizeof(phasor_cache_view));
  EXPECT_EQ(parts_of(c::cache_view_of("test", "the view", &view)), parts_of(want));
}

TEST(CCache, layouts_of_one_view_are_those_of_cpp) {
  char data[8] = {};
  const CacheShape shape = {4, 3, 5, 16};
  const phasor_cache_memory memory = memory_at(data);
  phasor_cache_memory slots = memory;
  slots.block = 0;
  struct Case {
    phasor_status (*layout)(const phasor_cache_memory*, phasor_cache_view*, phasor_error*);
    const phasor_cache_memory* memory;
    CacheView want;
  };
  for (const auto& [layout, of, want] : {Case{phasor_contiguous_cache, &memory, contiguous_cache(data, Storage::bf16, shape)},
                                         Case{phasor_vllm_key_cache, &memory, vllm_key_cache(data, Storage::bf16, shape)},
                                         Case{phasor_vllm_value_cache, &memory, vllm_value_cache(data, Storage::bf16, shape)},
                                         Case{phasor_sglang_cache, &slots, sglang_cache(data, Storage::bf16, 4, 5, 16)}}) {
    phasor_cache_view view = empty_view();
    succeeds([&, layout = layout, of = of](phasor_error* error) { return layout(of, &view, error); });
    expect_view(view, want);
  }
  const CTensor<Float16> tensor({2, 3, 5, 8});
  phasor_cache_view view = empty_view();
  succeeds([&](phasor_error* error) { return phasor_tensor_cache(tensor.get(), &view, error); });
  expect_view(view, tensor_cache(phasor::view(const_cast<Float16*>(tensor.values.data()), {2, 3, 5, 8})));
}

TEST(CCache, layouts_of_two_views_are_those_of_cpp) {
  std::vector<std::byte> data(1 << 14);
  const CacheShape shape = {4, 3, 5, 16};
  phasor_cache_memory memory = memory_at(data.data());
  memory.device = {2, 1};
  const auto on_gpu = [](CacheView view) {
    view.device = {DeviceKind::cuda, 1};
    return view;
  };
  phasor_cache_view first = empty_view(), second = empty_view();
  succeeds([&](phasor_error* error) { return phasor_vllm_flash_cache(&memory, &first, &second, error); });
  const CachePair flash = vllm_flash_cache(data.data(), Storage::bf16, shape);
  expect_view(first, on_gpu(flash.k));
  expect_view(second, on_gpu(flash.v));
  for (const phasor_head_order order : {PHASOR_HEAD_ORDER_NHD, PHASOR_HEAD_ORDER_HND}) {
    succeeds([&](phasor_error* error) { return phasor_flashinfer_cache(&memory, order, &first, &second, error); });
    const CachePair pair = flashinfer_cache(data.data(), Storage::bf16, shape, static_cast<HeadOrder>(order));
    expect_view(first, on_gpu(pair.k));
    expect_view(second, on_gpu(pair.v));
  }
  phasor_cache_memory latent = {};
  latent.size = sizeof latent;
  latent.data = data.data();
  latent.blocks = 2;
  latent.block = 3;
  succeeds([&](phasor_error* error) { return phasor_mla_656_cache(&latent, &first, &second, error); });
  const CacheParts wide = mla_656_cache(data.data(), 2, 3);
  expect_view(first, wide.parts[0]);
  expect_view(second, wide.parts[1]);
  for (const std::int64_t bytes : {0, 2000}) {
    latent.block_bytes = bytes;
    succeeds([&](phasor_error* error) { return phasor_mla_584_cache(&latent, &first, &second, error); });
    const CacheParts narrow = mla_584_cache(data.data(), 2, 3, bytes);
    expect_view(first, narrow.parts[0]);
    expect_view(second, narrow.parts[1]);
  }
}

TEST(CCache, every_field_of_a_view_goes_both_ways) {
  float scales[4] = {};
  CacheView view;
  view.data = scales;
  view.storage = Storage::i8;
  view.shape = {2, 3, 4, 5, 6, 7};
  view.strides = {7, 6, 5, 4, 3, 2};
  view.layer = 1;
  view.first_channel = 9;
  view.scales = {.kind = CacheScales::Kind::made,
                 .use = CacheScales::Use::multiply,
                 .encoding = CacheScales::Encoding::ue8m0,
                 .data = scales,
                 .strides = {1, 2, 3, 4},
                 .group = 8,
                 .least = 0.5F};
  expect_view(c::c_cache_view_of(view), view);
  view.scales = {
      .kind = CacheScales::Kind::given, .use = CacheScales::Use::multiply, .value = 0.25F, .data = scales, .strides = {0, 0, 1, 0}};
  expect_view(c::c_cache_view_of(view), view);
  view.scales = {};
  expect_view(c::c_cache_view_of(view), view);
  phasor_cache_view plain = c::c_cache_view_of(view);
  plain.scales.kind = PHASOR_SCALES_GIVEN;  // 0 is the default
  EXPECT_EQ(c::cache_view_of("test", "the view", &plain).scales.value, 1);
  plain.scales.kind = PHASOR_SCALES_MADE;
  EXPECT_EQ(c::cache_view_of("test", "the view", &plain).scales.least, 0x1p-126F);
}

TEST(CCache, every_field_of_places_is_read) {
  const CTensor<std::int32_t> indptr({2}), requests({4});
  const CTensor<std::int64_t> indices({3}), at({5}), slots({6});
  auto places = sized<phasor_token_places>();
  places.kind = PHASOR_PLACES_PAGES;
  places.on_gpu = PHASOR_PLACES_CHECKED;
  places.indptr = indptr.get();
  places.indices = indices.get();
  places.requests = requests.get();
  places.places = at.get();
  places.pages_per_request = 9;
  const TokenPlaces value = c::token_places_of("test", &places);
  EXPECT_EQ(value.kind, TokenPlaces::Kind::pages);
  EXPECT_EQ(value.on_gpu, TokenPlaces::OnGpu::checked);
  EXPECT_EQ(value.pages_per_request, 9);
  const auto list = [](const IntegerList& of) { return std::tuple(of.data, of.type, of.size); };
  EXPECT_EQ(list(value.indptr), std::tuple(static_cast<const void*>(indptr.values.data()), PositionType::i32, 2));
  EXPECT_EQ(list(value.indices), std::tuple(static_cast<const void*>(indices.values.data()), PositionType::i64, 3));
  EXPECT_EQ(list(value.requests), std::tuple(static_cast<const void*>(requests.values.data()), PositionType::i32, 4));
  EXPECT_EQ(list(value.places), std::tuple(static_cast<const void*>(at.values.data()), PositionType::i64, 5));
  EXPECT_EQ(value.slots.data, nullptr);
  places = sized<phasor_token_places>();
  places.kind = PHASOR_PLACES_SLOTS;
  places.slots = slots.get();
  EXPECT_EQ(c::token_places_of("test", &places).slots.data, slots.values.data());
  EXPECT_EQ(c::token_places_of("test", nullptr).kind, TokenPlaces::Kind::in_order);
}

TEST(CCache, storages_have_sizes_and_names) {
  for (phasor_storage storage = -1; storage < 7; ++storage) {
    const bool listed = storage >= 0 && storage < 6;
    EXPECT_EQ(phasor_storage_bytes(storage), listed ? bytes_of(static_cast<Storage>(storage)) : 0);
    EXPECT_STREQ(phasor_storage_name(storage), listed ? name_of(static_cast<Storage>(storage)) : "unknown");
  }
}

TEST(CCache, bad_memory_is_refused_and_no_view_is_written) {
  char data[8] = {};
  phasor_cache_view view = empty_view(), second = empty_view();
  view.layer = 77;
  phasor_cache_memory memory = memory_at(data);
  const auto contiguous = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_contiguous_cache(&memory, &view, error); });
  };
  memory.data = nullptr;
  EXPECT_EQ(contiguous(), "contiguous_cache: data is null, wanted one");
  memory = memory_at(data);
  memory.heads = 0;
  EXPECT_EQ(contiguous(), "contiguous_cache: the memory has an extent of 0, wanted 1 or more");
  memory.heads = std::int64_t{1} << 60;
  EXPECT_EQ(contiguous(), "contiguous_cache: the memory has more than 2^56 elements, wanted fewer");
  memory = memory_at(data);
  memory.storage = 6;
  EXPECT_EQ(contiguous(), "contiguous_cache: storage is 6, wanted 0 to 5");
  memory = memory_at(data);
  memory.block_bytes = 2;
  EXPECT_EQ(contiguous(), "contiguous_cache: block_bytes is given, and this layout has none, wanted 0");
  memory = memory_at(data);
  memory.size = 3;
  EXPECT_NE(contiguous().find("the size of the memory is 3"), std::string::npos);
  memory = memory_at(data);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_sglang_cache(&memory, &view, error); }),
            "sglang_cache: block is 3, wanted 0 or 1");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_flashinfer_cache(&memory, 2, &view, &second, error); }),
            "flashinfer_cache: order is 2, wanted 0 to 1");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_mla_656_cache(&memory, &view, &second, error); }),
            "mla_656_cache: heads is given, and this layout has none, wanted 0");
  phasor_cache_memory latent = memory;
  latent.heads = latent.head_dim = 0;
  latent.storage = 0;
  latent.block_bytes = 584;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_mla_584_cache(&latent, &view, &second, error); }),
            "mla_584_cache: block_bytes is 584, wanted 0 or an even number that holds the block's tokens");
  latent.block_bytes = std::int64_t{1} << 60;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_mla_584_cache(&latent, &view, &second, error); }),
            "mla_584_cache: the memory has more than 2^56 elements, wanted fewer");
  memory.head_dim = 12;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_vllm_key_cache(&memory, &view, error); }),
            "vllm_key_cache: head_dim is 12, wanted a multiple of 8, 16 bytes");
  memory = memory_at(data);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_vllm_flash_cache(&memory, &view, nullptr, error); }),
            "vllm_flash_cache: v is null, wanted one");
  latent.block_bytes = 0;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_mla_656_cache(&latent, &view, nullptr, error); }),
            "mla_656_cache: rotated is null, wanted one");
  second.size = 0;
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_vllm_flash_cache(&memory, &view, &second, error); })
                .find("the size of v is 0"),
            std::string::npos);
  const CTensor<double> wide({2, 3});
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_tensor_cache(wide.get(), &view, error); }),
            "tensor_cache: the tensor is f64, wanted f32, f16 or bf16");
  EXPECT_EQ(view.layer, 77);
  EXPECT_EQ(view.data, nullptr);
}

}  // namespace
}  // namespace phasor::test
