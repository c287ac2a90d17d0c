// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention that does not fit is an error that says where, what is and what is wanted; and then nothing is written.
#include <gtest/gtest.h>

#include <limits>

#include "prepare/attempt.hpp"

namespace phasor::test {
namespace {

TEST(PrepareInput, tensors_that_do_not_fit_are_refused) {
  check_cases({
      {"neither q nor k nor v is given", [](Attempt& c) { c.inputs = {}; }},
      {"q is given and has no output", [](Attempt& c) { c.outputs.q = {}; }},
      {"v is not given and has an output", [](Attempt& c) { c.inputs.v = {}; }},
      {"the output of k has 3 parts, wanted 1 or 2", [](Attempt& c) { c.outputs.k.count = 3; }},
      {"neither q nor k nor v is given",  // the packed row is too short for its heads
       [](Attempt& c) { c.inputs = unpack_qkv(ConstTensorView(view(c.memory.data(), {1, 3, 1, 79})), {3, 1, 16}); }},
      {"neither q nor k nor v is given",  // heads apart from each other are no packed row
       [](Attempt& c) { c.inputs = unpack_qkv(ConstTensorView(view(c.memory.data(), {1, 3, 2, 80})), {3, 1, 16}); }},
      {"neither q nor k nor v is given",  // nor are channels
       [](Attempt& c) { c.inputs = unpack_qkv(ConstTensorView(view(c.memory.data(), {1, 3, 1, 80}, {0, 160, 0, 2})), {3, 1, 16}); }},
      {"q is f64, wanted f32, f16 or bf16", [](Attempt& c) { c.inputs.q.dtype = DType::f64; }},
      {"k is bf16 and another tensor f32", [](Attempt& c) { c.inputs.k.dtype = DType::bf16; }},
      {"v has 2 x 2 tokens, wanted 2 x 3", [](Attempt& c) { c.inputs.v.shape[1] = 2; }},
      {"k has 0 heads", [](Attempt& c) { c.inputs.k.shape[2] = 0; }},
      {"q has head_dim 5000, wanted 1 to 4096", [](Attempt& c) { c.inputs.q.shape[3] = 5000; }},
      {"q has null data", [](Attempt& c) { c.inputs.q.data = nullptr; }},
      {"q has head_dim 8, the spec wants 16",
       [](Attempt& c) {
         c.inputs.q.shape[3] = 8;
         c.outputs.q.parts[0].shape[5] = 8;
       }},
      {"rotary_width 16 at 3 does not fit q's head_dim 16", [](Attempt& c) { c.spec.q_rotary_offset = 3; }},
      {"q_rotary_offset is given and nothing rotates",
       [](Attempt& c) {
         c.rotation = {};
         c.spec.q_rotary_offset = 0;
       }},
      {"positions have 4 tokens, wanted 3", [](Attempt& c) { c.rotation.positions = positions(c.list.data(), 4); }},
      {"query_factors are f32 of shape (2, 2, 1, 1), wanted f32 of (2, 3, 1, 1)",
       [](Attempt& c) { c.inputs.query_factors = view(c.memory.data(), {2, 2, 1, 1}); }},
      {"unknown order", [](Attempt& c) { c.spec.order = static_cast<PrepareSpec::Order>(7); }},
      {"k on cuda:1, wanted cpu", [](Attempt& c) { c.inputs.k.device = {DeviceKind::cuda, 1}; }},
  });
}

TEST(PrepareInput, norms_that_do_not_fit_are_refused) {
  check_cases({
      {"norm of q has an unknown kind", [](Attempt& c) { c.spec.q_norm.kind = static_cast<HeadNorm::Kind>(9); }},
      {"norm of k is none and has a weight", [](Attempt& c) { c.spec.k_norm.weight = view(c.memory.data(), {1, 1, 1, 16}); }},
      {"norm of v has epsilon -1",
       [](Attempt& c) {
         c.spec.v_norm.kind = HeadNorm::Kind::rms;
         c.spec.v_norm.epsilon = -1;
       }},
      {"norm of q has width 17, wanted 0 (all) to 16",
       [](Attempt& c) {
         c.spec.q_norm.kind = HeadNorm::Kind::rms;
         c.spec.q_norm.width = 17;
       }},
      {"weight of q's norm has shape (1, 1, 2, 16), wanted (1, 1, 1 or 3, 16)",
       [](Attempt& c) {
         c.spec.q_norm.kind = HeadNorm::Kind::l2;
         c.spec.q_norm.weight = view(c.memory.data(), {1, 1, 2, 16});
       }},
      {"v has a norm and is not given",
       [](Attempt& c) {
         c.spec.v_norm.kind = HeadNorm::Kind::rms;
         c.inputs.v = {};
         c.outputs.v = {};
       }},
  });
  check_cases({{"norm of q is over all heads and after the rotation",
                [](Attempt& c) {
                  c.spec.order = PrepareSpec::Order::rotation_first;
                  c.spec.q_norm.kind = HeadNorm::Kind::rms;
                  c.spec.q_norm.over = HeadNorm::Over::all_heads;
                }}},
              ErrorKind::unsupported);
}

TEST(PrepareInput, caches_that_do_not_fit_are_refused) {
  check_cases({
      {"stride 0 on the token axis",
       [](Attempt& c) {
         c.v().scales.kind = CacheScales::Kind::made;
         c.v().scales.data = c.memory.data() + 3500;
         c.v().scales.strides = {1, 0, 0, 0};
       }},
      {"scales of v have strides by which they repeat",  // groups of one token
       [](Attempt& c) {
         c.v().scales.kind = CacheScales::Kind::made;
         c.v().scales.data = c.memory.data() + 3500;
         c.v().scales.strides = {2, 1, 1, 0};
         c.v().scales.group = 8;
       }},
      {"scales of v have strides by which they repeat",  // a group and the next token
       [](Attempt& c) {
         c.v().scales.kind = CacheScales::Kind::made;
         c.v().scales.data = c.memory.data() + 3500;
         c.v().scales.strides = {4, 1, 1, 1};
         c.v().scales.group = 8;
       }},
      {"q has 4294967296 x 4294967296 tokens, wanted 2^56 at most",
       [](Attempt& c) {
         const std::int64_t many = std::int64_t{1} << 32;
         c.inputs.q.shape = {many, many, 3, 16};
         c.inputs.q.strides = {0, 0, 16, 1};
       }},
      {"null data", [](Attempt& c) { c.outputs.q = tensor_cache({c.memory.data() + 1000, DType::f64, {2, 3, 3, 16}, {144, 48, 16, 1}}); }},
      {"null data", [](Attempt& c) { c.outputs.k = mla_584_cache(c.memory.data() + 2000, 1, 2, 1169); }},
      {"null data", [](Attempt& c) { c.outputs.k = mla_584_cache(c.memory.data() + 2000, 1, 2, 1160); }},
      {"cache of k has an unknown storage", [](Attempt& c) { c.k().storage = static_cast<Storage>(17); }},
      {"cache of k has null data", [](Attempt& c) { c.k().data = nullptr; }},
      {"cache of k is not aligned", [](Attempt& c) { c.k().data = static_cast<std::byte*>(c.k().data) + 1; }},
      {"cache of k has layer 1, wanted 0 to 0", [](Attempt& c) { c.k().layer = 1; }},
      {"cache of k has extent 0 on its block axis", [](Attempt& c) { c.k().shape[1] = 0; }},
      {"cache of k reaches beyond 2^56", [](Attempt& c) { c.k().strides[1] = std::int64_t{1} << 60; }},
      {"strides by which elements repeat", [](Attempt& c) { c.k().strides[2] = 8; }},
      {"cache of k has 2 heads, wanted 1",
       [](Attempt& c) {
         c.k().shape[3] = 2;
         c.k().strides[3] = 1000;
       }},
      {"part 0 of v's cache holds 17 channels",
       [](Attempt& c) { c.outputs.v = contiguous_cache(c.memory.data() + 3000, Storage::f32, {4, 2, 1, 17}); }},
      {"cache of v holds 8 channels, wanted 16", [](Attempt& c) { c.v().shape[5] = 8; }},
      {"q goes to 1 x 3 tokens, wanted 2 x 3", [](Attempt& c) { c.outputs.q.parts[0].shape[1] = 1; }},
      {"caches have blocks of 2 and 1 tokens", [](Attempt& c) { c.v().shape[2] = 1; }},
      {"cache of v is on cuda:0", [](Attempt& c) { c.v().device = {DeviceKind::cuda, 0}; }},
      {"output of k overlaps the input q", [](Attempt& c) { c.k().data = c.memory.data(); }},
      {"output of q overlaps the input q", [](Attempt& c) { c.outputs.q.parts[0].data = c.memory.data() + 16; }},
      {"outputs of q and k share an element", [](Attempt& c) { c.k().data = c.memory.data() + 1000; }},
      {"scales of v have the value 0",
       [](Attempt& c) {
         c.v().scales.kind = CacheScales::Kind::given;
         c.v().scales.value = 0;
       }},
      {"scales of v are to be made and have null data", [](Attempt& c) { c.v().scales.kind = CacheScales::Kind::made; }},
      {"scales of k are to be made and its cache is f32",
       [](Attempt& c) {
         c.k().scales.kind = CacheScales::Kind::made;
         c.k().scales.data = c.memory.data();
       }},
      {"scales of v have a group of -1",
       [](Attempt& c) {
         c.v().scales.kind = CacheScales::Kind::given;
         c.v().scales.group = -1;
       }},
      {"scales of v have an unknown kind", [](Attempt& c) { c.v().scales.kind = static_cast<CacheScales::Kind>(8); }},
  });
}

void to_pages(Attempt& c) {
  c.outputs.places = {.kind = TokenPlaces::Kind::pages,
                      .indices = integers(c.list.data(), 4),
                      .places = integers(c.list.data(), 3),
                      .pages_per_request = 2};
}

TEST(PrepareInput, places_that_do_not_fit_are_refused) {
  check_cases({
      {"caches have blocks of 6 and 3 tokens, wanted one size",
       [](Attempt& c) {
         c.outputs.places = {.kind = TokenPlaces::Kind::in_order, .starts = integers(c.list.data() + 2, 2)};
         c.outputs.k = contiguous_cache(c.memory.data() + 2000, Storage::f32, {2, 6, 1, 16});
         c.outputs.v = contiguous_cache(c.memory.data() + 3000, Storage::f32, {2, 3, 1, 16});
       }},
      {"token 1 goes to token 0 of block 4", [](Attempt& c) { c.slots[1] = 8; }},
      {"slot 7 is given to two tokens", [](Attempt& c) { c.slots[5] = 7; }},
      {"slots has 7 entries, wanted at most 6", [](Attempt& c) { c.outputs.places.slots = integers(c.list.data(), 7); }},
      {"slots is null and has 6 entries", [](Attempt& c) { c.outputs.places.slots.data = nullptr; }},
      {"slots has an unknown type", [](Attempt& c) { c.outputs.places.slots.type = PositionType::f64; }},
      {"slots on cuda:0, wanted cpu", [](Attempt& c) { c.outputs.places.slots.device = {DeviceKind::cuda, 0}; }},
      {"places have an unknown kind", [](Attempt& c) { c.outputs.places.kind = static_cast<TokenPlaces::Kind>(5); }},
      {"cache of k has 4 rows of 2 tokens, wanted 2 of 3", [](Attempt& c) { c.outputs.places = {}; }},
  });
}

TEST(PrepareInput, pages_that_do_not_fit_are_refused) {
  check_cases({
      {"page 1 of request 0 is 4, wanted 0 to 3",  // the first that is not there
       [](Attempt& c) {
         to_pages(c);
         c.slots = {0, 4, 2, 3};
         c.outputs.places.indices = integers(c.slots.data(), 4);
       }},
      {"places[2] is 4, beyond the 2 pages of request 0",
       [](Attempt& c) {
         c.list[2] = 4;
         to_pages(c);
       }},
      {"page 0 of request 0 is 9, wanted 0 to 3",
       [](Attempt& c) {
         to_pages(c);
         c.slots[0] = 9;
         c.outputs.places.indices = integers(c.slots.data(), 6);
       }},
      {"places[1] is 1, beyond the 0 pages of request 0",  // an indptr that falls
       [](Attempt& c) {
         to_pages(c);
         c.slots = {3, 1, 1};
         c.list[0] = -1;
         c.outputs.places.indptr = integers(c.slots.data(), 3);
       }},
      {"places[0] is 0, beyond the 0 pages of request 0",  // an indptr that leaves the indices
       [](Attempt& c) {
         to_pages(c);
         c.slots = {0, 5, 6};
         c.outputs.places.indptr = integers(c.slots.data(), 3);
       }},
      {"token 0 goes to token 9223372036854775807 of block 0",
       [](Attempt& c) {
         c.slots = {std::numeric_limits<std::int64_t>::max(), 0};
         c.outputs.places = {.kind = TokenPlaces::Kind::in_order, .starts = integers(c.slots.data(), 2)};
         c.outputs.k = contiguous_cache(c.memory.data() + 2000, Storage::f32, {2, 6, 1, 16});
         c.outputs.v = contiguous_cache(c.memory.data() + 3000, Storage::f32, {2, 6, 1, 16});
       }},
      {"unknown on_gpu (3), wanted trusted or checked", [](Attempt& c) { c.outputs.places.on_gpu = static_cast<TokenPlaces::OnGpu>(3); }},
      {"pages have no indptr and 0 pages per request",
       [](Attempt& c) {
         to_pages(c);
         c.outputs.places.pages_per_request = 0;
       }},
      {"requests has 2 entries, wanted 3",
       [](Attempt& c) {
         to_pages(c);
         c.outputs.places.requests = integers(c.list.data(), 2);
       }},
      {"requests[2] is 2, wanted 0 to 1",
       [](Attempt& c) {
         to_pages(c);
         c.outputs.places.requests = integers(c.list.data(), 3);
       }},
  });
}

TEST(PrepareInput, specs_that_do_not_fit_are_refused) {
  check_cases({
      {"spec_of has 0 entries, wanted 2 (one per batch row) or 6 (one per token)", [](Attempt& c) { c.rotation.rotaries = c.rotaries; }},
      {"spec_of[1] is 5, wanted 0 to 1",
       [](Attempt& c) {
         c.rotation.rotaries = c.rotaries;
         c.rotation.spec_of = integers(c.slots.data(), 2);
       }},
      {"rotaries differ in more than base, scaling and axes",
       [](Attempt& c) {
         c.rotaries[1] = *Rotary::make({.head_dim = 16, .pairing = Pairing::interleaved});
         c.rotation.rotaries = c.rotaries;
         c.rotation.spec_of = integers(c.list.data(), 2);
       }},
  });
}

}  // namespace
}  // namespace phasor::test
