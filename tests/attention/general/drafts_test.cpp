// SPDX-License-Identifier: Apache-2.0
// Drafts that form a tree: each sees the keys before all drafts, and those of its own branch. By a mask that is a dense bias, over a cache:
// on the CPU, as CUDA gathers it, and by CUDA's decoding kernel, run by the host, against each branch alone, its keys one behind another.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/general/decode_machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/caches.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kDrafts = 7;
constexpr std::int64_t kSequences = 3;
constexpr std::int64_t kRoom = 544;  // 34 pages of 16: two splits of decoding
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kWidth = 64;
/// Whom each draft follows; below 0: the keys before them.
constexpr std::array<std::int64_t, kDrafts> kParents = {-1, 0, 0, 1, 1, 2, 5};
const std::vector<std::int32_t> kLengths = {kDrafts, 40, 530};

bool follows(std::int64_t draft, std::int64_t other) {
  for (; draft >= 0; draft = kParents[static_cast<std::size_t>(draft)]) {
    if (draft == other) return true;
  }
  return false;
}
std::int64_t depth_of(std::int64_t draft) {
  std::int64_t depth = -1;
  for (; draft >= 0; draft = kParents[static_cast<std::size_t>(draft)]) ++depth;
  return depth;
}

struct MmaMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    run_mma_forward(layout.work);
    return {};
  }
};

/// What the dense bias adds to those who are seen.
enum class Adds : std::uint8_t { nothing, numbers };

struct Drafts {
  DType dtype;
  Tensor q, k, v, out, lse, dense, sinks;
  std::vector<std::int64_t> positions;  // of queries
  Rotary rotary = *Rotary::make({.head_dim = kWidth});

  Drafts(DType dtype_, DType of_bias, Adds adds)
      : dtype(dtype_),
        q(dtype, {kSequences, kDrafts, kHeads, kWidth}, 1),
        k(dtype, {kSequences, kRoom, 1, kWidth}, 2),
        v(dtype, {kSequences, kRoom, 1, kWidth}, 3),
        out(dtype, q.view.shape, 4),
        lse(DType::f32, {kSequences, kDrafts, kHeads, 1}, 5),
        dense(of_bias, {kSequences, kDrafts, adds == Adds::nothing ? 1 : kHeads, kRoom}, 6),
        sinks(DType::f32, {1, 1, kHeads, 1}, 7) {
    const std::int64_t heads = dense.view.shape[2];
    for (std::int64_t n = 0; n < kSequences * kDrafts * heads * kRoom; ++n) {
      const std::int64_t row = n / kRoom / heads, key = n % kRoom;
      const std::int64_t first = first_draft(row / kDrafts);
      const bool seen = key < first || follows(row % kDrafts, key - first);
      if (!seen || adds == Adds::nothing) {
        job::store_element(dense.view.data, of_bias, n, seen ? 0 : -std::numeric_limits<double>::infinity());
      }
    }
    for (std::int64_t b = 0; b < kSequences; ++b) {
      for (std::int64_t i = 0; i < kDrafts; ++i) positions.push_back(first_draft(b) + depth_of(i));
    }
  }
  static std::int64_t first_draft(std::int64_t sequence) { return kLengths[static_cast<std::size_t>(sequence)] - kDrafts; }
  /// Keys of a sequence that a draft sees, in the order of its branch.
  static std::vector<std::int64_t> branch(std::int64_t sequence, std::int64_t draft) {
    std::vector<std::int64_t> keys;
    for (std::int64_t j = 0; j < first_draft(sequence); ++j) keys.push_back(j);
    for (std::int64_t a = 0; a < kDrafts; ++a) {
      if (follows(draft, a)) keys.push_back(first_draft(sequence) + a);
    }
    return keys;
  }
  void rotate_keys() {
    std::vector<std::int64_t> at;
    for (std::int64_t b = 0; b < kSequences; ++b) {
      for (std::int64_t j = 0; j < kRoom; ++j) {
        const std::int64_t draft = j - first_draft(b);
        at.push_back(draft >= 0 && draft < kDrafts ? first_draft(b) + depth_of(draft) : j);
      }
    }
    ASSERT_TRUE(rotary.apply(k.view, phasor::positions(at.data(), kSequences, kRoom)).ok());
  }
  void run(const AttentionSpec& spec) {
    Cache cache(k.view, v.view, 16, Cache::Layout::flash, job::storage_of(dtype));
    cache.lengths = kLengths;
    std::fill(out.memory.begin(), out.memory.end(), std::byte{0xff});
    std::fill(lse.memory.begin(), lse.memory.end(), std::byte{0xff});
    const Status s = run_cached(cache.inputs(q.view), spec, {out.view, lse.view});
    ASSERT_TRUE(s.ok()) << s.message();
  }
};

/// Rows of a tensor as float32, side by side.
Tensor gathered_rows(const Tensor& of, std::int64_t batch, const std::vector<std::int64_t>& tokens) {
  const Extents& s = of.view.shape;
  Tensor to(DType::f32, {1, static_cast<std::int64_t>(tokens.size()), s[2], s[3]}, 1);
  const std::int64_t row = s[2] * s[3];
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::int64_t n = 0; n < row; ++n) {
      const double x = job::load_element(of.view.data, of.view.dtype, (batch * s[1] + tokens[t]) * row + n);
      job::store_element(to.view.data, DType::f32, static_cast<std::int64_t>(t) * row + n, x);
    }
  }
  return to;
}

/// A draft alone with its branch: a query behind its keys, without a mask.
void expect_branch(const Drafts& is, const AttentionSpec& spec, std::int64_t b, std::int64_t draft, double far) {
  const std::vector<std::int64_t> keys = Drafts::branch(b, draft);
  Tensor q = gathered_rows(is.q, b, {draft});
  if (std::holds_alternative<RotaryContent>(spec.content)) {  // rounded as the call rounds it
    Tensor turned(is.dtype, q.view.shape, 1);
    for (std::int64_t n = 0; n < kHeads * kWidth; ++n)
      job::store_element(turned.view.data, is.dtype, n, job::load_element(q.view.data, DType::f32, n));
    ASSERT_TRUE(is.rotary.apply(turned.view, positions_from(static_cast<std::int64_t>(keys.size()) - 1)).ok());
    q = gathered_rows(turned, 0, {0});
  }
  const Tensor k = gathered_rows(is.k, b, keys), v = gathered_rows(is.v, b, keys);
  const Extents& s = is.dense.view.shape;
  Tensor bias(DType::f32, {1, 1, s[2], static_cast<std::int64_t>(keys.size())}, 1);
  for (std::int64_t n = 0; n < s[2] * bias.view.shape[3]; ++n) {
    const std::int64_t at =
        ((b * kDrafts + draft) * s[2] + n / bias.view.shape[3]) * kRoom + keys[static_cast<std::size_t>(n % bias.view.shape[3])];
    job::store_element(bias.view.data, DType::f32, n, job::load_element(is.dense.view.data, is.dense.view.dtype, at));
  }
  const Tensor out(DType::f32, {1, 1, kHeads, kWidth}, 1), lse(DType::f32, {1, 1, kHeads, 1}, 1);
  const AttentionSpec alone = {.terms = {DenseTerm{bias.view}}, .softcap = spec.softcap, .sinks = spec.sinks};
  ASSERT_TRUE(run_plain({q.view, k.view, v.view}, alone, {out.view, lse.view}).ok());
  const std::int64_t row = b * kDrafts + draft;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    ASSERT_NEAR(job::load_element(is.lse.view.data, DType::f32, row * kHeads + h), job::load_element(lse.view.data, DType::f32, h),
                0x1p-13);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      ASSERT_NEAR(job::load_element(is.out.view.data, is.dtype, (row * kHeads + h) * kWidth + c),
                  job::load_element(out.view.data, DType::f32, h * kWidth + c), far)
          << "sequence " << b << ", draft " << draft << ", head " << h << ", channel " << c;
    }
  }
}
void expect_branches(const Drafts& is, const AttentionSpec& spec, double far) {
  for (std::int64_t b = 0; b < kSequences; ++b) {
    for (std::int64_t i = 0; i < kDrafts; ++i) {
      expect_branch(is, spec, b, i, far);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

/// Plain, with a mask by distance and sinks beside it, with numbers of its own, and with queries that the call rotates.
void expect_every_way(DType dtype, double far) {
  Drafts plain(dtype, DType::f32, Adds::nothing), with_numbers(dtype, dtype, Adds::numbers), turned(dtype, dtype, Adds::nothing);
  turned.rotate_keys();
  const AttentionSpec full = {.terms = {DenseTerm{plain.dense.view}}};
  const AttentionSpec causal = {.terms = {DenseTerm{plain.dense.view}}, .sinks = plain.sinks.view, .visibility = {.mask = Mask::causal}};
  const AttentionSpec numbers = {.terms = {DenseTerm{with_numbers.dense.view}}};
  const AttentionSpec rotated = {.content = RotaryContent{turned.rotary, KeyState::rotated},
                                 .terms = {DenseTerm{turned.dense.view}},
                                 .query_positions = positions(turned.positions.data(), kSequences, kDrafts)};
  for (const auto& [name, drafts, spec] : {std::tuple{"full", &plain, &full},
                                           {"causal", &plain, &causal},
                                           {"numbers", &with_numbers, &numbers},
                                           {"rotated", &turned, &rotated}}) {
    SCOPED_TRACE(std::string(name) + " in " + name_of(dtype));
    drafts->run(*spec);
    expect_branches(*drafts, *spec, far);
    if (testing::Test::HasFailure()) return;
  }
}

/// Of sums in float32 whose weights are rounded to 16 bits by kernels on tensor cores, as what comes out is.
constexpr double kBf16 = 2.5 * 0x1p-8;
constexpr double kF16 = 2.5 * 0x1p-11;

TEST(TreeDrafts, are_their_branches_on_the_cpu) {
  expect_every_way(DType::f32, 0x1p-18);
  expect_every_way(DType::bf16, kBf16);
}
TEST(TreeDrafts, are_their_branches_when_gathered) {
  const ReplacedBackend gathered([](backend::Backend& backend) { cached_by<AttentionMachine>(backend); });
  expect_every_way(DType::f32, 0x1p-18);
}
TEST(TreeDrafts, are_their_branches_when_gathered_for_mma) {
  const ReplacedBackend gathered([](backend::Backend& backend) { cached_by<MmaMachine>(backend); });
  expect_every_way(DType::bf16, kBf16);
}
TEST(TreeDrafts, are_their_branches_by_the_decoding_kernel) {
  const ReplacedBackend decoded([](backend::Backend& backend) { decoded_by<AttentionMachine>(backend); });
  decoded_calls = 0;
  expect_every_way(DType::bf16, kBf16);
  expect_every_way(DType::f16, kF16);
  EXPECT_EQ(decoded_calls, 2 * 4);
}

/// -infinity stays under a soft cap, which the decoding kernel gives to what it added.
TEST(TreeDrafts, under_a_soft_cap_are_gathered) {
  const ReplacedBackend decoded([](backend::Backend& backend) { decoded_by<AttentionMachine>(backend); });
  decoded_calls = 0;
  Drafts drafts(DType::bf16, DType::f32, Adds::nothing);
  const AttentionSpec capped = {.terms = {DenseTerm{drafts.dense.view}}, .softcap = 5};
  drafts.run(capped);
  EXPECT_EQ(decoded_calls, 0);
  expect_branches(drafts, capped, kBf16);
}

}  // namespace
}  // namespace phasor::test
