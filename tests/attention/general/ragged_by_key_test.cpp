// SPDX-License-Identifier: Apache-2.0
// Ragged calls over a cache (query_starts: chunked prefill and decoding in one call) with what goes by key, one for all sequences: packed
// as CUDA packs them, by the general kernels and those of mma.sync run by the host, against the CPU, which does one sequence after the
// other.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/general/gathered.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/caches.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kRoom = 80;  // five pages of 16
constexpr std::int64_t kQueries = 31;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kWidth = 16;

int by_mma = 0;
struct MmaMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    ++by_mma;
    run_mma_forward(layout.work);
    return {};
  }
};

struct NamedSpec {
  std::string name;
  AttentionSpec spec;
};

/// Tensors of a call; those by key in strides of their own.
struct Call {
  DType dtype;
  Tensor q, k, v, out, lse, table, wide_table, features, dense, dense_of_head, dense_by_key, of_segments, shift;
  Cache cache;
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> starts = {0, 3, 3, 23, 24, kQueries};
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(2 * kRoom);
  std::vector<std::int64_t> at = std::vector<std::int64_t>(3 * kRoom);
  std::vector<std::int32_t> key_segments = std::vector<std::int32_t>(kRoom), query_segments = std::vector<std::int32_t>(kQueries);

  explicit Call(DType dtype_)
      : dtype(dtype_),
        q(dtype, {1, kQueries, kHeads, kWidth}, 1),
        k(dtype, {5, kRoom, 2, kWidth}, 2),
        v(dtype, {5, kRoom, 2, kWidth}, 3),
        out(dtype, q.view.shape, 4),
        lse(DType::f32, {1, kQueries, kHeads, 1}, 5),
        table(dtype, {1, 9, kHeads, kWidth}, 6),
        wide_table(dtype, {1, 9, kHeads, 24}, 7),
        features(dtype, {1, kRoom, 2, 24}, 8),
        dense(DType::f32, {1, kQueries, kRoom, kHeads}, 9),
        dense_of_head(dtype, {1, kQueries, 1, kRoom}, 10),
        dense_by_key(DType::f64, {1, 1, kHeads, kRoom}, 11),
        of_segments(dtype, {1, 2, kHeads, kWidth}, 12),
        shift(dtype, {1, 1, kHeads, kWidth}, 13),
        cache(k.view, v.view, 16, Cache::Layout::nhd, job::storage_of(dtype)) {
    for (std::size_t j = 0; j < kRoom; ++j) {
      mask[2 * j] = j % 7 != 3;
      at[3 * j] = static_cast<std::int64_t>(j + j / 5) - 2;
      key_segments[j] = static_cast<std::int32_t>(j / 9);
    }
    for (std::size_t i = 0; i < kQueries; ++i) query_segments[i] = static_cast<std::int32_t>(i / 4);
    for (std::int64_t i = 0; i < kQueries; ++i) {  // hidden by -infinity
      job::store_element(dense.view.data, DType::f32, (i * kRoom + i * 2) * kHeads + i % kHeads, -std::numeric_limits<double>::infinity());
    }
  }
  CachedInputs inputs() const {
    CachedInputs in = cache.inputs(q.view);
    in.pages.lengths = lengths;
    return in;
  }
  /// (1, queries, heads, keys), in which keys are apart by as many elements as there are heads.
  ConstTensorView dense_view() const { return {dense.view.data, DType::f32, {1, kQueries, kHeads, kRoom}, {0, kRoom * kHeads, 1, kHeads}}; }
  /// Backwards through the tokens, with heads that are shared.
  ConstTensorView turned_features() const {
    const auto last = (kRoom - 1) * 2 * 24 * bytes_of(dtype);
    return {static_cast<const std::byte*>(features.view.data) + last, dtype, {1, kRoom, 1, 24}, {0, -2 * 24, 0, 1}};
  }
  std::vector<NamedSpec> specs() const {
    const Visibility causal = {.mask = Mask::causal};
    Visibility masked = causal;
    masked.key_mask = {mask.data(), {0, 2}};
    const Positions at_keys = {at.data(), PositionType::i64, {1, 1, kRoom}, {0, 0, 3}};
    const Positions of_queries = {query_segments.data(), PositionType::i32, {1, 1, kQueries}, {0, 0, 1}};
    const Positions of_keys = {key_segments.data(), PositionType::i32, {1, 1, kRoom}, {0, 0, 1}};
    const RotaryContent rotary = {*Rotary::make({.head_dim = kWidth})};
    const BiasTerm alibi = {*Bias::make(Alibi{.heads = kHeads})};
    const SegmentTerm segments = {of_segments.view, shift.view, of_queries, of_keys};
    const TableTerm keyed = {.side = TableSide::key, .table = wide_table.view, .rows = ClipRows{4, 4}, .features = features.view};
    TableTerm turned = keyed;
    turned.features = turned_features();
    const TableTerm shaw = {.table = table.view, .rows = ClipRows{4, 4}};
    std::vector<NamedSpec> all = {
        {"key mask", {.visibility = masked}},
        {"key mask, soft cap and bias", {.terms = {alibi}, .softcap = 3, .visibility = masked}},
        {"key positions", {.terms = {alibi, shaw}, .visibility = causal, .key_positions = at_keys}},
        {"keys rotated at their positions", {.content = rotary, .visibility = causal, .key_positions = at_keys}},
        {"counted key positions", {.content = rotary, .visibility = causal, .key_positions = positions_from(-7)}},
        {"segments", {.terms = {segments}}},
        {"dense", {.terms = {DenseTerm{dense_view()}}}},
        {"dense of one head", {.terms = {DenseTerm{dense_of_head.view}, shaw}, .visibility = causal}},
        {"dense by key", {.terms = {DenseTerm{dense_by_key.view}}, .softcap = 2}},
        {"features of keys", {.terms = {keyed}}},
        {"features of keys, turned", {.terms = {turned}, .visibility = causal}},
        {"all of it",
         {.terms = {DenseTerm{dense_view()}, keyed, segments, DenseTerm{dense_by_key.view}},
          .visibility = masked,
          .key_positions = at_keys}},
        {"dropout", {.terms = {DenseTerm{dense_view()}}, .visibility = masked, .dropout = {.probability = 0.3, .seed = 5}}}};
    for (NamedSpec& one : all) one.spec.visibility.query_starts = starts;
    return all;
  }
  /// Stale: the workspace is what another call left, else what is no number.
  void run(const AttentionSpec& spec, std::vector<std::byte>& workspace, bool stale = false) {
    const Result<std::int64_t> bytes = cached_attention_workspace(inputs(), spec);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    if (stale) {
      ASSERT_EQ(workspace.size(), static_cast<std::size_t>(*bytes));  // whatever lengths are
    } else {
      workspace.assign(static_cast<std::size_t>(*bytes), std::byte{0xff});
    }
    std::fill(out.memory.begin(), out.memory.end(), std::byte{0xff});
    std::fill(lse.memory.begin(), lse.memory.end(), std::byte{0xff});
    const Status s = cached_attention(inputs(), spec, {out.view, lse.view}, workspace);
    ASSERT_TRUE(s.ok()) << s.message();
  }
};

/// `wanted` is what memory held before: the view of a copied tensor would be of the tensor that was copied.
void expect_near(const Tensor& is, const std::vector<std::byte>& wanted, double far) {
  const Extents& s = is.view.shape;
  for (std::int64_t n = 0; n < s[0] * s[1] * s[2] * s[3]; ++n) {
    const double x = job::load_element(is.view.data, is.view.dtype, n), y = job::load_element(wanted.data(), is.view.dtype, n);
    ASSERT_TRUE(x == y || std::abs(x - y) <= far) << n << " is " << x << ", wanted " << y;
  }
}

/// Lengths come one after the other on the same layout. Bounds: of sums of 16 products and 80 values in other orders, see
/// gathered_test.cpp.
template <class Machine>
void expect_cpu(DType dtype, double far_out, double far_lse) {
  Call call(dtype);
  const std::vector<std::vector<std::int64_t>> lengths = {{3, 1, 20, kRoom, 33}, {0, 0, 0, 0, 0}, {2, 0, 79, 0, 17}};
  for (const NamedSpec& one : call.specs()) {
    std::vector<std::byte> workspace;
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      SCOPED_TRACE(one.name + ", lengths " + std::to_string(n));
      call.lengths = lengths[n];
      std::vector<std::byte> of_cpu;
      call.run(one.spec, of_cpu);
      const std::vector<std::byte> out = bytes_of_view(call.out.view), lse = bytes_of_view(call.lse.view);
      const ReplacedBackend gathered([](backend::Backend& backend) { cached_by<Machine>(backend); });
      packed_calls = 0;
      call.run(one.spec, workspace, n > 0);
      EXPECT_EQ(packed_calls, 1);
      expect_near(call.lse, lse, far_lse);
      expect_near(call.out, out, far_out);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RaggedByKey, is_the_cpu) { expect_cpu<AttentionMachine>(DType::f32, 0x1p-15, 0x1p-15); }
TEST(RaggedByKey, is_the_cpu_by_mma) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    by_mma = 0;
    expect_cpu<MmaMachine>(dtype, 3.5 * 0x1p-8, 0x1p-11);
    EXPECT_GE(by_mma, 3 * 10) << name_of(dtype);
  }
}

/// A sequence alone has its keys where tensors by key say: nothing is copied.
TEST(RaggedByKey, of_one_sequence_is_read_where_it_lies) {
  Call call(DType::f32);
  call.starts = {0, kQueries};
  call.lengths = {55};
  std::vector<job::AttentionTermJob> terms;
  const std::vector<std::int32_t> table = {1, 2, 3, 4, 5};
  for (const NamedSpec& one : call.specs()) {
    CachedInputs in = call.inputs();
    in.pages.blocks = table;
    job::CachedAttentionJob job;
    const Status s = job::make_cached_job({in, one.spec, nullptr, {}}, terms, job);
    ASSERT_TRUE(s.ok()) << one.name << ": " << s.message();
    attend::Arena arena;
    cuda::attention::CachedLayout layout;
    ASSERT_TRUE(cuda::attention::lay_out_cached(job, arena, layout).ok()) << one.name;
    EXPECT_TRUE(layout.keyed.empty()) << one.name;
    EXPECT_GT(layout.most_keys, 0) << one.name;
  }
}

}  // namespace
}  // namespace phasor::test
