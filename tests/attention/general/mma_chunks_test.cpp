// SPDX-License-Identifier: Apache-2.0
// The backward by mma.sync with keys in several chunks, its blocks run by the host: against the double reference, and with the bits that
// all keys at once give where they are cut into as many parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "attention/general/hidden_keys.hpp"
#include "attention/general/machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/narrow_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

using cuda::attention::BackwardLayout;
using cuda::attention::mma::backward::Limits;

/// How calls are to be cut.
struct Cut {
  std::int64_t parts = 2;
  bool by_keys = true;
};
Cut cut;
/// Of the last call.
std::int64_t launches = 0;
std::int64_t groups = 0;

/// Memory that cuts a call so.
Limits limits_of(const job::AttentionBackwardJob& job) {
  for (std::int64_t bytes = 0; bytes < std::int64_t{1} << 25; bytes += 2048) {
    attend::Arena measure;
    BackwardLayout layout;
    layout.limits = {bytes, cut.by_keys ? 64 : std::numeric_limits<std::int64_t>::max()};
    if (!cuda::attention::lay_out_backward(job, cuda::attention::mma::kComputeMajor, measure, layout).ok()) break;
    const bool by_keys = cuda::attention::key_chunks(layout.work) > 1;
    if (by_keys == cut.by_keys && layout.work.backward.parts == cut.parts) return layout.limits;
  }
  ADD_FAILURE() << "no memory cuts it into " << cut.parts << " parts";
  return {};
}

struct ChunkMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status backward(const BackwardLayout& layout) const {
    EXPECT_TRUE(layout.by_mma_backward);
    ++launches;
    groups = layout.work.backward.groups;
    run_mma_backward(layout.work);
    return {};
  }
};

class MmaChunks : public testing::Test {
 protected:
  MmaChunks() {
    weights_are_rounded = true;
    cut = {};
  }
  ~MmaChunks() override { weights_are_rounded = false; }

  /// Ragged batches have one chunk.
  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) {
      if (!one.problem.visibility.query_starts.empty()) continue;
      expect_as_reference(one.problem, dtype, one.name);
      EXPECT_GT(launches, 1) << one.name;
    }
  }
  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) {
    forward_by<AttentionMachine>(backend);
    backend.attention_backward_workspace = cuda::attention::backward_workspace;  // more than a call with less memory needs
    backend.attention_backward = [](job::AttentionBackwardJob& job, const Workspace& workspace, const Execution&) {
      launches = 0;
      ChunkMachine machine;
      return cuda::attention::attention_backward_on(machine, job, workspace, limits_of(job));
    };
  });
};

/// Lengths at the edges of chunks, fewer queries than keys and more.
std::vector<NarrowProblem> edges() {
  std::vector<NarrowProblem> all;
  for (const auto& [queries, keys] : {std::pair{65, 128}, {129, 127}, {70, 129}, {200, 75}, {66, 321}}) {
    for (const bool causal : {false, true}) {
      NarrowProblem one = masked_problems({1, queries, keys, 4, 2, 16, 24}).front();
      one.name = std::to_string(queries) + " queries, " + std::to_string(keys) + " keys" + (causal ? ", causal" : "");
      one.problem.visibility.causal = causal;
      all.push_back(one);
    }
  }
  return all;
}

TEST_F(MmaChunks, every_mask) { expect_all(masked_problems(kNarrow), DType::bf16); }
TEST_F(MmaChunks, wide_heads) { expect_all(masked_problems(kNarrowWide), DType::f16); }
TEST_F(MmaChunks, any_length) {
  expect_all(edges(), DType::bf16);
  cut.parts = 3;
  expect_all({edges().at(2), edges().at(3), edges().at(6), edges().at(7)}, DType::f16);
}
TEST_F(MmaChunks, tables_shifts_and_biases) { expect_all(term_problems(kNarrow), DType::bf16); }
/// A third of them: the others' tiles are no others.
TEST_F(MmaChunks, tables_over_many_chunks) {
  const std::vector<NarrowProblem> all = long_table_problems(TablesBy::backward);
  std::vector<NarrowProblem> some;
  for (std::size_t n = 0; n < all.size(); n += 3) some.push_back(all[n]);
  expect_all(some, DType::bf16);
}
TEST_F(MmaChunks, many_terms_with_masks) { expect_all(mixed_problems(), DType::bf16); }
TEST_F(MmaChunks, tables_of_values) { expect_all(value_problems(kNarrowWide), DType::f16); }
TEST_F(MmaChunks, features) { expect_all(feature_problems(kNarrow), DType::bf16); }
TEST_F(MmaChunks, dropout) { expect_all(dropped_problems(kNarrow), DType::bf16); }
TEST_F(MmaChunks, soft_caps) { expect_all(capped_problems(kNarrowWide), DType::f16); }

TEST_F(MmaChunks, queries_that_see_nothing_take_no_part) {
  for (const bool padded : {false, true}) {
    ref::Shape shape = kNarrow;
    shape.queries = shape.keys = 100;
    ref::Problem p = term_problems(shape_of_hidden_queries(shape, padded)).at(0).problem;
    hide_queries_of_nan(p, padded);
    hide_keys_of_nan(p, 70);
    expect_finite_gradients(p, DType::bf16, kHiddenQueries);
    EXPECT_GT(launches, 1);
  }
}

ref::Gradients gradients_of(const ref::Problem& problem, bool by_keys) {
  const ref::Shape& s = problem.shape;
  cut.by_keys = by_keys;
  Bridge bridge(problem, DType::bf16);
  EXPECT_TRUE(bridge.forward().ok());
  EXPECT_TRUE(bridge.backward(Numbers(3).values(s.batch * s.queries * s.heads * s.value_width)).ok());
  EXPECT_EQ(launches > 1, by_keys);
  return bridge.reference_gradients();
}
void expect_learned(ref::Gradients& is, ref::Gradients& wanted, const std::string& name) {
  for (std::size_t n = 0; n < is.schemes.size(); ++n) {
    const ref::Parameters own = parameters_of(is.schemes[n]);
    const ref::Parameters theirs = parameters_of(wanted.schemes[n]);
    for (std::size_t k = 0; k < own.size(); ++k) {
      EXPECT_TRUE(std::equal(own[k].values.begin(), own[k].values.end(), theirs[k].values.begin())) << name << ", " << own[k].name;
    }
  }
}
/// Blocks add in the order of keys, chunks or none: the same bits as all keys at once, and in every call.
TEST_F(MmaChunks, have_the_bits_of_all_keys_at_once) {
  std::vector<NarrowProblem> problems = edges();
  for (const auto& more : {term_problems(kNarrow), dropped_problems(kNarrowWide), mixed_problems()}) {
    problems.insert(problems.end(), more.begin(), more.end());
  }
  for (const NarrowProblem& one : problems) {
    if (!one.problem.visibility.query_starts.empty()) continue;
    ref::Gradients at_once = gradients_of(one.problem, false);
    const std::int64_t groups_before = groups;
    ref::Gradients is = gradients_of(one.problem, true);
    EXPECT_TRUE(is.q == at_once.q && is.k == at_once.k && is.v == at_once.v) << one.name;
    // What sequences learn together is added up in another order.
    if (groups == groups_before && groups == one.problem.shape.batch) expect_learned(is, at_once, one.name);
    if (one.problem.schemes.size() < 2) continue;
    first_blocks_first = true;
    ref::Gradients again = gradients_of(one.problem, true);
    first_blocks_first = false;
    EXPECT_TRUE(is.q == again.q && is.k == again.k && is.v == again.v) << one.name;
    expect_learned(again, is, one.name);
  }
}

}  // namespace
}  // namespace phasor::test
