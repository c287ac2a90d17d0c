// SPDX-License-Identifier: Apache-2.0
// Attention over caches as CUDA gathers it, by its general kernels run on the host, against the CPU's.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/general/gathered.hpp"
#include "attention/support/caches.hpp"
#include "attention/support/problems.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

ReplacedBackend gathered_attention() {
  return ReplacedBackend([](backend::Backend& backend) { cached_by<AttentionMachine>(backend); });
}

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  Numbers random(seed);
  std::vector<float> list(static_cast<std::size_t>(count));
  for (float& x : list) x = static_cast<float>(random.uniform());
  return list;
}

struct Call {
  std::vector<float> q = numbers(3 * 4 * 4 * 16, 1), k = numbers(8 * 16 * 2 * 16, 2), v = numbers(8 * 16 * 2 * 16, 3);
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(2 * 8 * 16 * 2 * 16);
  std::vector<std::int32_t> table = {3, 1, 7, 0, 2, 5}, lengths = {19, 0, 32};
  CachedInputs inputs;
  explicit Call(Storage storage, const Extents& queries) {
    for (std::size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<std::uint8_t>(n * 37 % 0x60 + (n % 3 == 0 ? 0x80 : 0));
    const CacheShape shape = {8, 16, 2, 16};
    const bool wide = storage == Storage::f32;
    inputs.q = view(q.data(), queries);
    inputs.k = contiguous_cache(wide ? static_cast<void*>(k.data()) : bytes.data(), storage, shape);
    inputs.v = contiguous_cache(wide ? static_cast<void*>(v.data()) : bytes.data() + bytes.size() / 2, storage, shape);
    if (!wide) inputs.k.scales = inputs.v.scales = {.kind = CacheScales::Kind::given, .value = 0.25F};
    inputs.pages = {table, lengths, 16};
  }
  std::vector<float> run(const AttentionSpec& spec) const {
    std::vector<float> out(q.size());
    const Result<std::int64_t> needed = cached_attention_workspace(inputs, spec);
    EXPECT_TRUE(needed.ok()) << needed.status().message();
    std::vector<std::byte> workspace(needed.ok() ? static_cast<std::size_t>(*needed) : 0);
    const Status s = cached_attention(inputs, spec, {view(out.data(), inputs.q.shape)}, workspace);
    EXPECT_TRUE(s.ok()) << s.message();
    return out;
  }
};

/// Two sums of 16 products and two of 32 weighted values, each below 2 (8 bits: 7.5), in float32 in different orders.
void expect_near(const std::vector<float>& is, const std::vector<float>& wanted, double largest) {
  const double bound = largest * largest * 96 * 0x1p-23;
  for (std::size_t n = 0; n < is.size(); ++n) ASSERT_NEAR(is[n], wanted[n], bound) << n;
}

TEST(CachedAttentionOnHost, gathered_is_the_cpu) {
  std::vector<std::uint8_t> mask(3 * 32, 1);
  mask[5] = mask[64 + 20] = 0;
  std::vector<float> dense = numbers(3 * 4 * 32, 9);
  const std::vector<AttentionSpec> specs = {
      {},
      {.terms = {BiasTerm{*Bias::make(Alibi{.heads = 4})}}, .softcap = 3, .visibility = {.mask = Mask::causal, .left = 9}},
      {.terms = {DenseTerm{view(dense.data(), {3, 4, 1, 32})}}, .visibility = {.key_mask = {mask.data(), {32, 1}}}},
      {.content = RotaryContent{*Rotary::make({.head_dim = 16}), KeyState::rotated}, .visibility = {.mask = Mask::causal}},
      {.content = RotaryContent{*Rotary::make({.head_dim = 16})}, .dropout = {.probability = 0.25, .seed = 3}}};
  for (const Storage storage : {Storage::f32, Storage::f8_e4m3}) {
    const Call call(storage, {3, 4, 4, 16});
    for (std::size_t n = 0; n < specs.size(); ++n) {
      SCOPED_TRACE(std::string(name_of(storage)) + ", spec " + std::to_string(n));
      const std::vector<float> wanted = call.run(specs[n]);
      const ReplacedBackend by_gathering = gathered_attention();
      expect_near(call.run(specs[n]), wanted, storage == Storage::f32 ? 2 : 7.5);
    }
  }
}

TEST(CachedAttentionOnHost, gathered_has_ragged_queries) {
  const std::vector<std::int64_t> starts = {0, 5, 5, 12};
  const std::vector<std::uint8_t> mask = {1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
  for (const Storage storage : {Storage::f32, Storage::f8_e4m3}) {
    const Call call(storage, {1, 12, 4, 16});
    AttentionSpec spec = {.visibility = {.mask = Mask::causal, .query_starts = starts}};
    for (const std::uint8_t* const seen : {static_cast<const std::uint8_t*>(nullptr), mask.data()}) {
      spec.visibility.key_mask = {seen, {32, 1}};
      const std::vector<float> wanted = call.run(spec);
      const ReplacedBackend by_gathering = gathered_attention();
      expect_near(call.run(spec), wanted, storage == Storage::f32 ? 2 : 7.5);
    }
  }
}

/// Keys of another storage than q's are float32 when they are gathered, and rounded as queries are after their turn.
TEST(CachedAttentionOnHost, gathered_keys_of_other_storages_are_rounded_once_turned) {
  const std::int64_t keys = 37;
  const AttentionSpec spec = {.content = RotaryContent{*Rotary::make({.head_dim = 16})}, .visibility = {.mask = Mask::causal}};
  for (const Storage storage : {Storage::f8_e4m3, Storage::f16, Storage::f32}) {
    const Tensor q(DType::bf16, {1, 12, 4, 16}, 1), k(DType::bf16, {1, keys, 2, 16}, 2), v(DType::bf16, {1, keys, 2, 16}, 3);
    const Cache cache(k.view, v.view, 16, Cache::Layout::hnd, storage);
    std::vector<float> out(12 * 4 * 16), wanted(out.size());
    ASSERT_TRUE(run_cached(cache.inputs(q.view), spec, {view(wanted.data(), q.view.shape)}).ok());
    const ReplacedBackend by_gathering = gathered_attention();
    const Status s = run_cached(cache.inputs(q.view), spec, {view(out.data(), q.view.shape)});
    ASSERT_TRUE(s.ok()) << s.message();
    SCOPED_TRACE(name_of(storage));
    expect_near(out, wanted, 1);
  }
}

}  // namespace
}  // namespace phasor::test
