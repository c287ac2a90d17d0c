// SPDX-License-Identifier: Apache-2.0
// Keys of a cache gathered for kernels that know no pages, run by the host: every scheme against the double reference, by the general
// kernels and those of mma.sync; sequences of any length against the CPU; which calls have their sequences one behind another, and which
// kernels take them then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/general/gathered.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/caches.hpp"
#include "attention/support/rotated_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

namespace mma = cuda::attention::mma;
using mma::ScoresIn;

int by_mma = 0;
struct MmaMachine : AttentionMachine {
  static int compute_major() { return mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    ++by_mma;
    run_mma_forward(layout.work);
    return {};
  }
};

// ---- Against the reference ----

class Gathered : public testing::Test {
 protected:
  Gathered() { packed_calls = roomy_calls = by_mma = 0; }
};

TEST_F(Gathered, every_scheme_is_the_reference) {
  const ReplacedBackend paged([](backend::Backend& backend) { paged_by<AttentionMachine>(backend); });
  for (const std::int64_t batch : {1, 2}) {
    const ref::Shape shape{.batch = batch, .queries = 6, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 4};
    for (const NamedScheme& one : every_scheme(shape, 4)) {
      const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
      if (xpos != nullptr && xpos->keys_rotated) continue;  // the library does not have it
      ref::Problem p = random_problem(shape, 3);
      p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
      p.schemes = {one.scheme};
      const int before = packed_calls;
      expect_forward(p, DType::f32, one.name);
      // Numbers for each key of each row, and segments, which are lists of tokens.
      const bool by_key = std::holds_alternative<ref::Dense>(one.scheme) || std::holds_alternative<ref::Xlnet>(one.scheme);
      EXPECT_EQ(packed_calls == before, batch == 2 && by_key) << one.name;
    }
  }
}

TEST_F(Gathered, every_mask_and_shape_is_the_reference) {
  const ReplacedBackend paged([](backend::Backend& backend) { paged_by<AttentionMachine>(backend); });
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {
      ref::Problem p = random_problem(shape, 1);
      p.visibility = mask.visibility;
      const std::string name = mask.name + " " + std::to_string(shape.queries) + " x " + std::to_string(shape.keys);
      const int before = packed_calls;
      expect_forward(p, DType::f32, name);
      EXPECT_EQ(packed_calls == before, !mask.visibility.key_mask.empty() && shape.batch > 1) << name;
      if (mask.name == "causal") expect_forward(p, DType::f32, name + ", heads first", Order::heads_first);
    }
  }
  EXPECT_GT(roomy_calls, 0);
}

/// As the reference names it: whether something goes by key or by batch row.
bool may_be_packed(const ref::Problem& p) {
  const bool by_place = !p.query_positions.empty() || !p.key_positions.empty() || !p.visibility.key_mask.empty();
  const bool by_list = std::any_of(p.schemes.begin(), p.schemes.end(), [](const ref::Scheme& one) {
    return std::holds_alternative<ref::Dense>(one) || std::holds_alternative<ref::Xlnet>(one);
  });
  return p.visibility.query_starts.empty() ? p.shape.batch == 1 || !(by_place || by_list) : !(by_place || by_list);
}

class GatheredByMma : public Gathered {
 protected:
  GatheredByMma() { weights_are_rounded = true; }
  ~GatheredByMma() override { weights_are_rounded = false; }
  /// What is packed is taken.
  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    const int packed_before = packed_calls;
    for (const NarrowProblem& one : problems) {
      const int before = by_mma;
      const int packed = packed_calls;
      expect_forward(one.problem, dtype, one.name);
      EXPECT_EQ(packed_calls - packed, may_be_packed(one.problem) ? 1 : 0) << one.name;
      EXPECT_TRUE(by_mma == before + 1 || packed_calls == packed) << one.name << " is not taken";
    }
    EXPECT_GT(packed_calls, packed_before);
  }
  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) { paged_by<MmaMachine>(backend); });
};
constexpr ref::Shape kSmall{.batch = 2, .queries = 9, .keys = 67, .heads = 2, .key_heads = 1, .width = 24, .value_width = 16};

TEST_F(GatheredByMma, masks) { expect_all(masked_problems(kSmall), DType::bf16); }
TEST_F(GatheredByMma, tables_and_biases) { expect_all(term_problems(kSmall), DType::bf16); }
TEST_F(GatheredByMma, tables_of_values) { expect_all(value_problems(kSmall), DType::f16); }
TEST_F(GatheredByMma, many_terms) { expect_all(mixed_problems(), DType::bf16); }
TEST_F(GatheredByMma, cope) { expect_all(cope_problems(kSmall), DType::bf16); }
TEST_F(GatheredByMma, cope_of_any_length) { expect_all(cope_lengths(), DType::f16); }
TEST_F(GatheredByMma, dropout) { expect_all(dropped_problems(kSmall), DType::bf16); }
TEST_F(GatheredByMma, features) { expect_all(feature_problems(kSmall), DType::f16); }
TEST_F(GatheredByMma, rotated) { expect_all(rotated_problems(kSmall), DType::bf16); }

// ---- Sequences of any length, against the CPU, which does one after the other ----

constexpr std::int64_t kRoom = 80;  // five pages of 16
constexpr std::int64_t kSequences = 5;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kWidth = 16;

/// Tensors of a call in pages, with whatever goes by sequence, key or query in schemes.
struct Call {
  DType dtype;
  std::int64_t queries;  // of a batch row
  Tensor q, k, v, out, lse, table, values, cope, sinks;
  Cache cache;
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> starts;
  std::vector<std::int64_t> prefix = {3, 0, 40, 1, 90};

  Call(DType dtype_, std::int64_t queries_, bool ragged, Cache::Layout layout, Storage storage, const CacheScales& scales = {})
      : dtype(dtype_),
        queries(queries_),
        q(dtype, {ragged ? 1 : kSequences, queries, kHeads, kWidth}, 1),
        k(dtype, {kSequences, kRoom, 2, kWidth}, 2),
        v(dtype, {kSequences, kRoom, 2, kWidth}, 3),
        out(dtype, q.view.shape, 4),
        lse(DType::f32, {q.view.shape[0], queries, kHeads, 1}, 5),
        table(dtype, {1, 9, kHeads, kWidth}, 6),
        values(dtype, {1, 9, 1, kWidth}, 7),
        cope(dtype, {1, 6, kHeads, kWidth}, 8),
        sinks(DType::f32, {1, 1, kHeads, 1}, 9),
        cache(k.view, v.view, 16, layout, storage, scales) {}

  CachedInputs inputs() const {
    CachedInputs in = cache.inputs(q.view);
    in.pages.lengths = lengths;
    return in;
  }
  std::vector<AttentionSpec> specs() const {
    const Rotary rotary = *Rotary::make({.head_dim = kWidth});
    const TableTerm shaw = {.table = table.view, .rows = ClipRows{4, 4}};
    const TableTerm shaw_values = {.side = TableSide::value, .table = values.view, .rows = ClipRows{4, 4}};
    const std::vector<double> r1 = {1, 2, 0.5, 3}, r2 = {0.1, 1, 0.3, 2};
    std::vector<AttentionSpec> all = {
        {},
        {.visibility = {.mask = Mask::causal, .left = 20}},
        {.terms = {BiasTerm{*Bias::make(Alibi{.heads = kHeads})}}, .softcap = 3, .sinks = sinks.view, .visibility = {.mask = Mask::causal}},
        {.terms = {BiasTerm{*Bias::make(Kerple{KerpleKind::logarithmic, r1, r2})}}},
        {.content = RotaryContent{rotary, KeyState::rotated}, .visibility = {.mask = Mask::causal}},
        {.content = RotaryContent{rotary}, .visibility = {.mask = Mask::causal}},
        {.terms = {shaw, shaw_values}},
        {.terms = {CopeTerm{.table = cope.view}}, .visibility = {.mask = Mask::causal}},
        {.visibility = {.mask = Mask::causal, .prefix = prefix}},
        {.dropout = {.probability = 0.3, .seed = 5}}};
    for (AttentionSpec& one : all) one.visibility.query_starts = starts;
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

struct Far {
  double out;
  double lse;
};
/// What memory held before, not copies of tensors: the view of a copy is of the tensor that was copied.
struct Held {
  std::vector<std::byte> out, lse;
  explicit Held(const Call& call) : out(bytes_of_view(call.out.view)), lse(bytes_of_view(call.lse.view)) {}
};
void expect_near(const Call& is, const Held& held, Far far) {
  for (std::int64_t n = 0; n < is.queries * is.q.view.shape[0] * kHeads; ++n) {
    const double x = job::load_element(is.lse.view.data, DType::f32, n), wanted = job::load_element(held.lse.data(), DType::f32, n);
    ASSERT_TRUE(x == wanted || std::abs(x - wanted) <= far.lse) << "lse " << n << " is " << x << ", wanted " << wanted;
  }
  for (std::int64_t n = 0; n < is.queries * is.q.view.shape[0] * kHeads * kWidth; ++n) {
    const double x = job::load_element(is.out.view.data, is.dtype, n), wanted = job::load_element(held.out.data(), is.dtype, n);
    ASSERT_TRUE(std::abs(x - wanted) <= far.out) << n << " is " << x << ", wanted " << wanted;
  }
}

/// By a machine, with lengths that come one after the other on the same layout.
template <class Machine>
void expect_sequences(Call&& call, Far far, bool in_pieces = true) {
  const std::vector<std::vector<std::int64_t>> lengths = {{0, 1, 16, kRoom, 33}, {0, 0, 0, 0, 0}, {2, 0, 79, 0, 17}};
  for (std::size_t n = 0; n < call.specs().size(); ++n) {
    std::vector<std::byte> workspace;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      SCOPED_TRACE("spec " + std::to_string(n) + ", lengths " + std::to_string(i));
      call.lengths = lengths[i];
      const AttentionSpec spec = call.specs()[n];
      std::vector<std::byte> of_cpu;
      call.run(spec, of_cpu);
      const Held held(call);
      const ReplacedBackend gathered([](backend::Backend& backend) { cached_by<Machine>(backend); });
      packed_calls = calls_in_pieces = 0;
      call.run(spec, workspace, i > 0);
      EXPECT_EQ(packed_calls, 1);
      EXPECT_EQ(calls_in_pieces, in_pieces ? 1 : 0);
      expect_near(call, held, far);
      if (testing::Test::HasFailure()) return;
    }
  }
}
/// Sums of 16 products and of 80 weighted values in float32 in other orders, scores up to 12; 16 bits: takes_gathered_keys_of_a_cache.
constexpr Far kFloat = {0x1p-16, 0x1p-16};
constexpr Far kNarrowFar = {3.5 * 0x1p-8, 0x1p-12};

TEST_F(Gathered, has_sequences_of_any_length) {
  using enum Cache::Layout;
  for (const std::int64_t queries : {1, 20})
    expect_sequences<AttentionMachine>(Call(DType::f32, queries, false, nhd, Storage::f32), kFloat);
  expect_sequences<AttentionMachine>(Call(DType::f32, 4, false, old, Storage::f32), kFloat, false);
  const CacheScales scales = {.kind = CacheScales::Kind::given, .value = 0.5F};
  expect_sequences<AttentionMachine>(Call(DType::f32, 4, false, hnd, Storage::f8_e4m3, scales), kFloat, false);
}
TEST_F(Gathered, has_ragged_sequences_of_any_length) {
  Call call(DType::f32, 31, true, Cache::Layout::hnd, Storage::f32);
  call.starts = {0, 3, 3, 23, 24, 31};
  expect_sequences<AttentionMachine>(std::move(call), kFloat);
}
TEST_F(Gathered, has_sequences_of_any_length_by_mma) {
  using enum Cache::Layout;
  expect_sequences<MmaMachine>(Call(DType::f16, 20, false, hnd, Storage::f16), kNarrowFar);
  Call call(DType::bf16, 31, true, nhd, Storage::bf16);
  call.starts = {0, 3, 3, 23, 24, 31};
  expect_sequences<MmaMachine>(std::move(call), kNarrowFar);
}

// ---- Which calls are packed, and who takes them ----

/// Two sequences of a cache in 16 bits; memory of nobody.
struct Asked {
  alignas(16) std::byte memory[64] = {};
  std::int32_t lengths[2] = {5, 9};
  CachedInputs inputs;
  AttentionOutputs outputs;
  explicit Asked(std::int64_t queries = 90, std::int64_t batch = 2) {
    const Extents q = {batch, queries, 8, 128};
    inputs.q = {memory, DType::bf16, q, contiguous_strides(q)};
    inputs.k = inputs.v = contiguous_cache(memory, Storage::bf16, {4, 64, 2, 128});
    inputs.pages.lengths = Integers(lengths, 2);
    outputs.out = {memory, DType::bf16, q, contiguous_strides(q)};
  }
  ConstTensorView tensor(const Extents& shape, DType dtype = DType::bf16) const {
    return {memory, dtype, shape, contiguous_strides(shape)};
  }
  cuda::attention::CachedLayout laid_out(const AttentionSpec& spec, cuda::attention::Layout& attention) const {
    std::vector<job::AttentionTermJob> terms;
    job::CachedAttentionJob job;
    const Status s = job::make_cached_job({inputs, spec, nullptr, {}}, terms, job);
    EXPECT_TRUE(s.ok()) << s.message();
    job.attention.outputs = outputs;
    attend::Arena arena;
    cuda::attention::CachedLayout layout;
    EXPECT_TRUE(lay_out_cached(job, arena, layout).ok());
    EXPECT_LE(arena.needed(), *cuda::attention::gathered_workspace(job));
    job.attention.outputs = {};
    EXPECT_LE(arena.needed(), *cuda::attention::gathered_workspace(job));  // which nobody knows yet
    attention.most_keys = layout.most_keys;
    EXPECT_TRUE(cuda::attention::lay_out(layout.job, "cached_attention", arena, attention).ok());
    cuda::attention::lay_out_forward(arena, mma::kComputeMajor, attention);
    return layout;
  }
  bool is_packed(const AttentionSpec& spec = {}) const {
    cuda::attention::Layout attention;
    return laid_out(spec, attention).most_keys > 0;
  }
  /// Where mma.sync has its scores; nullopt: it does not take it.
  std::optional<ScoresIn> scores_in(const AttentionSpec& spec = {}) const {
    cuda::attention::Layout attention;
    EXPECT_EQ(laid_out(spec, attention).most_keys, 64);
    return attention.by_mma ? std::optional(mma::cut_of(attention.work).scores) : std::nullopt;
  }
};

TEST(GatheredCalls, lie_one_behind_another_where_nothing_goes_by_key_or_row) {
  const Asked asked;
  EXPECT_TRUE(asked.is_packed());
  const std::vector<std::int64_t> prefix = {1, 2};
  EXPECT_TRUE(asked.is_packed({.visibility = {.mask = Mask::causal, .prefix = prefix}}));
  const std::vector<std::uint8_t> mask(128, 1);
  EXPECT_FALSE(asked.is_packed({.visibility = {.key_mask = {mask.data(), {64, 1}}}}));
  EXPECT_FALSE(asked.is_packed({.query_positions = positions_from(3)}));
  EXPECT_FALSE(asked.is_packed({.key_positions = positions_from(3)}));
  EXPECT_FALSE(asked.is_packed({.terms = {DenseTerm{asked.tensor({1, 90, 1, 64})}}}));
  const std::vector<std::int32_t> list(90);
  const Positions of_tokens = {list.data(), PositionType::i32, {1, 1, 90}, {0, 0, 1}};
  Positions of_keys = of_tokens;
  of_keys.shape[2] = 64;
  const SegmentTerm segments = {asked.tensor({1, 2, 8, 128}), {}, of_tokens, of_keys};
  EXPECT_FALSE(asked.is_packed({.terms = {segments}}));
  TableTerm table = {.table = asked.tensor({1, 7, 8, 128}), .rows = ClipRows{3, 3}};
  for (const TableSide side : {TableSide::query, TableSide::key, TableSide::value}) {
    table.side = side;
    EXPECT_TRUE(asked.is_packed({.terms = {table}}));
  }
  table.side = TableSide::query;
  table.table = asked.tensor({2, 7, 8, 128});
  EXPECT_FALSE(asked.is_packed({.terms = {table}}));
  table.table = asked.tensor({1, 7, 8, 16});
  table.features = asked.tensor({2, 90, 8, 16});
  EXPECT_TRUE(asked.is_packed({.terms = {table}}));
  table.features = asked.tensor({1, 90, 8, 16});  // those of one sequence for both
  EXPECT_FALSE(asked.is_packed({.terms = {table}}));
  table.side = TableSide::key;
  table.features = asked.tensor({2, 64, 2, 16});
  EXPECT_FALSE(asked.is_packed({.terms = {table}}));
  BiasTerm gated = {.bias = *Bias::make(Alibi{.heads = 8}), .gate = asked.tensor({2, 90, 8, 1})};
  EXPECT_TRUE(asked.is_packed({.terms = {gated}}));
  gated.gate = asked.tensor({1, 90, 8, 1});
  EXPECT_FALSE(asked.is_packed({.terms = {gated}}));
}

TEST(GatheredCalls, lie_one_behind_another_where_tensors_by_query_can_be_seen_so) {
  Asked asked;
  asked.outputs.lse = {asked.memory, DType::f32, {2, 90, 8, 1}, {90 * 8, 8, 1, 1}};
  EXPECT_TRUE(asked.is_packed());
  asked.outputs.lse.strides = {90 * 8, 1, 90, 1};  // by heads
  EXPECT_FALSE(asked.is_packed());
  asked.outputs.lse = {};
  asked.inputs.q.strides = {90 * 3 * 1024, 3 * 1024, 128, 1};  // beside k and v
  EXPECT_TRUE(asked.is_packed());
  asked.inputs.q.strides = {8 * 90 * 128, 128, 90 * 128, 1};
  EXPECT_FALSE(asked.is_packed());
  Asked one(1);
  one.inputs.q.strides = {5 * 1024, 7, 128, 1};  // one query a sequence lies anywhere
  EXPECT_TRUE(one.is_packed());
  Asked alone(90, 1);  // and so does a sequence alone, with all that it has by key
  alone.inputs.pages.lengths = Integers(alone.lengths, 1);
  alone.inputs.q.strides = {0, 128, 90 * 128, 1};
  const std::vector<std::uint8_t> mask(64, 1);
  EXPECT_TRUE(alone.is_packed({.terms = {DenseTerm{alone.tensor({1, 90, 1, 64})}}, .visibility = {.key_mask = {mask.data(), {64, 1}}}}));
}

/// All of these stood at given positions, with a key mask: their scores went through shared memory, or the general kernels had them.
TEST(GatheredCalls, go_to_the_kernels_that_know_tokens_alone) {
  const Asked asked;
  const Rotary rotary = *Rotary::make({.head_dim = 128});
  const Visibility causal = {.mask = Mask::causal};
  EXPECT_EQ(asked.scores_in({.visibility = causal}), ScoresIn::registers);
  EXPECT_EQ(asked.scores_in({.content = RotaryContent{rotary}, .visibility = causal}), ScoresIn::registers);
  EXPECT_EQ(asked.scores_in({.content = RotaryContent{rotary, KeyState::rotated}, .softcap = 30}), ScoresIn::changed_in_registers);
  const TableTerm shaw = {.table = asked.tensor({1, 7, 8, 128}), .rows = ClipRows{3, 3}};
  TableTerm values = shaw;
  values.side = TableSide::value;
  EXPECT_EQ(asked.scores_in({.terms = {shaw}}), ScoresIn::tabled);
  EXPECT_EQ(asked.scores_in({.terms = {shaw, values}}), ScoresIn::tabled);  // was the general kernels'
  EXPECT_EQ(asked.scores_in({.terms = {CopeTerm{.table = asked.tensor({1, 17, 8, 128})}}, .visibility = causal}), ScoresIn::counted);
  const std::vector<double> r(8, 1);
  EXPECT_EQ(asked.scores_in({.terms = {BiasTerm{*Bias::make(Kerple{KerpleKind::logarithmic, r, r})}}}), ScoresIn::changed_in_registers);
  const Mlp mlp = {.widths = {1, 8}, .parameters = std::vector<double>(16, 0.5)};
  EXPECT_EQ(asked.scores_in({.terms = {BiasTerm{*Bias::make(Fire{.mlp = mlp, .length = 64})}}}), ScoresIn::changed_in_registers);
  EXPECT_EQ(asked.scores_in({.terms = {BiasTerm{*Bias::make(Fire{.mlp = mlp, .length = 63})}}}), std::nullopt);  // queries beyond it
  EXPECT_EQ(asked.scores_in({.dropout = {.probability = 0.5}}), ScoresIn::shared);
}

/// Values of a bias by distance are for one sequence's room, however many there are.
TEST(GatheredCalls, have_distances_of_one_sequence) {
  const Asked asked;
  cuda::attention::Layout attention;
  const auto layout = asked.laid_out({.terms = {BiasTerm{*Bias::make(Alibi{.heads = 8})}}}, attention);
  EXPECT_EQ(layout.job.k.shape[1], 2 * 64);
  EXPECT_EQ(attention.work.terms[0].bias.distances, 2 * 90 + 2 * 64 + 1);
}

}  // namespace
}  // namespace phasor::test
