// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention whose memory is not apart is an error that names both pieces; and then nothing is written.
#include <gtest/gtest.h>

#include <algorithm>

#include "prepare/attempt.hpp"

namespace phasor::test {
namespace {

/// k and v both of 8 bits, in one allocation; k has scales of its own.
void to_bytes(Attempt& c) {
  std::byte* const bytes = reinterpret_cast<std::byte*>(c.memory.data() + 2000);
  c.outputs.k = contiguous_cache(bytes, Storage::f8_e4m3, {4, 2, 1, 16});
  c.outputs.v = contiguous_cache(bytes + 128, Storage::i8, {4, 2, 1, 16});
  c.k().scales = {.kind = CacheScales::Kind::made, .data = c.memory.data() + 2500, .strides = {2, 1, 1, 0}};
}
std::byte* after(void* data, std::ptrdiff_t bytes) { return static_cast<std::byte*>(data) + bytes; }

TEST(PrepareInput, outputs_scales_and_lists_that_share_memory_are_refused) {
  check_cases({
      {"outputs of k and v share an element",
       [](Attempt& c) {
         to_bytes(c);
         c.v().data = after(c.v().data, -1);
       }},
      {"outputs of q and v share an element",  // bytes in the middle of a float32
       [](Attempt& c) {
         to_bytes(c);
         c.v().data = after(c.outputs.q.parts[0].data, 2 * 3 * 3 * 16 * 4 - 1);
       }},
      {"parts of k's output share an element",
       [](Attempt& c) {
         CacheView first = contiguous_cache(c.memory.data() + 2000, Storage::f32, {4, 2, 1, 16});
         first.shape[5] = 8;
         CacheView second = first;
         second.first_channel = 8;
         second.data = after(first.data, 7 * 4);
         c.outputs.k = CacheParts(first, second);
       }},
      {"output of k and scales of k share memory",
       [](Attempt& c) {
         to_bytes(c);
         c.k().scales.data = after(c.k().data, 124);
       }},
      {"scales of k and output of v share memory",
       [](Attempt& c) {
         to_bytes(c);
         c.k().scales.data = after(c.v().data, 124);
       }},
      {"scales of k and scales of v share memory",
       [](Attempt& c) {
         to_bytes(c);
         c.v().scales = c.k().scales;
         c.v().scales.data = after(c.k().scales.data, 28);
       }},
      {"scales of k and output of v share memory",  // the last group's alone
       [](Attempt& c) {
         to_bytes(c);
         c.k().scales.group = 5;
         c.k().scales.strides = {8, 4, 4, 1};
         c.k().scales.data = after(c.v().data, -4 * 31);
         c.k().data = c.memory.data() + 2500;
       }},
      {"scales of k overlaps the input v",
       [](Attempt& c) {
         to_bytes(c);
         c.k().scales.data = c.memory.data() + 600 + 95;
       }},
      {"given scales of v overlaps the output of k",
       [](Attempt& c) {
         to_bytes(c);
         c.v().scales = {.kind = CacheScales::Kind::given, .data = c.k().data};
       }},
  });
}

TEST(PrepareInput, what_is_read_and_written_at_once_is_refused) {
  check_cases({
      {"scales of k reach beyond 2^56",
       [](Attempt& c) {
         to_bytes(c);
         c.k().scales.strides[0] = std::int64_t{1} << 60;
       }},
      {"weight of q overlaps the output of v",
       [](Attempt& c) {
         c.spec.q_norm.kind = HeadNorm::Kind::rms;
         c.spec.q_norm.weight = view(c.memory.data() + 3000, {1, 1, 1, 16});
       }},
      {"slots overlaps the output of v",
       [](Attempt& c) {
         c.slots[2] = 3;  // as float32 -1 is a NaN, which is not equal to itself
         auto* const slots = reinterpret_cast<std::int64_t*>(c.memory.data() + 3000);
         std::copy(c.slots.begin(), c.slots.end(), slots);
         c.outputs.places.slots.data = slots;
       }},
      {"query_factors overlaps the output of q", [](Attempt& c) { c.inputs.query_factors = view(c.memory.data() + 1000, {2, 3, 1, 1}); }},
  });
}

TEST(PrepareInput, outputs_that_lie_between_each_other_without_touching_are_taken) {
  Attempt c;
  to_bytes(c);
  EXPECT_TRUE(prepare_attention(c.inputs, c.rotation, c.outputs, c.spec).ok());
  for (CacheView* const cache : {&c.k(), &c.v()}) {  // rows of 40 bytes: 16 of k, its scale, 16 of v
    cache->strides = {320, 80, 40, 40, 16, 1};
    cache->data = after(c.memory.data() + 2000, cache == &c.v() ? 20 : 0);
  }
  c.k().scales.data = after(c.memory.data() + 2000, 16);
  c.k().scales.strides = {20, 10, 10, 0};
  const Status status = prepare_attention(c.inputs, c.rotation, c.outputs, c.spec);
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace phasor::test
