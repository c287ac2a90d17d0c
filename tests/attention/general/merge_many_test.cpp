// SPDX-License-Identifier: Apache-2.0
// The merge of CUDA, run by the host: parts by the hundreds, in strides of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention/general/machine.hpp"
#include "attention/support/caches.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kTokens = 3;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kWidth = 5;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// Outputs (2, 3, 2, 5), of which every seventh saw nothing in some rows and holds what is no number there.
struct Parts {
  std::vector<Tensor> outs, lses;
  std::vector<AttentionPart> parts;
  /// `ways`: in how many different strides they lie.
  Parts(std::int64_t count, DType dtype, std::int64_t ways) {
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t gap = p % ways;  // elements between tokens
      const auto seed = static_cast<std::uint64_t>(p);
      outs.emplace_back(dtype, Extents{2, kTokens, 1, kHeads * kWidth + gap}, 2 * seed + 1);
      lses.emplace_back(dtype == DType::f64 ? DType::f64 : DType::f32, Extents{2, kHeads, kTokens, 1}, 2 * seed + 2);
      const Tensor& lse = lses.back();
      const std::int64_t row = kHeads * kWidth + gap;
      parts.push_back({{outs.back().view.data, dtype, {2, kTokens, kHeads, kWidth}, {kTokens * row, row, kWidth, 1}},
                       {lse.view.data, lse.view.dtype, {2, kTokens, kHeads, 1}, {kTokens * kHeads, 1, kTokens, 1}}});
      if (p % 7 == 3) see_nothing(p, p % 12);
    }
  }
  static std::int64_t out_at(const AttentionPart& part, std::int64_t row) {
    const Extents& s = part.out.strides;
    return row / kHeads / kTokens * s[0] + row / kHeads % kTokens * s[1] + row % kHeads * s[2];
  }
  static std::int64_t lse_at(const AttentionPart& part, std::int64_t row) {
    const Extents& s = part.lse.strides;
    return row / kHeads / kTokens * s[0] + row / kHeads % kTokens * s[1] + row % kHeads * s[2];
  }
  void see_nothing(std::int64_t p, std::int64_t row) {
    const AttentionPart& part = parts[static_cast<std::size_t>(p)];
    job::store_element(lses[static_cast<std::size_t>(p)].view.data, part.lse.dtype, lse_at(part, row), kNothing);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      job::store_element(outs[static_cast<std::size_t>(p)].view.data, part.out.dtype, out_at(part, row) + c, std::nan(""));
    }
  }
};
struct Merged {
  Tensor out, lse;
  explicit Merged(DType dtype)
      : out(dtype, {2, kTokens, kHeads, kWidth}, 1), lse(dtype == DType::f64 ? DType::f64 : DType::f32, {2, kTokens, kHeads, 1}, 2) {}
  Status merge(const std::vector<AttentionPart>& parts) const {
    const ReplacedBackend general = general_attention();
    return merge_attention(parts, {out.view, lse.view});
  }
};

/// By the definition, in float64.
void expect_merged(const Parts& of, const Merged& is, double rounding) {
  for (std::int64_t row = 0; row < 2 * kTokens * kHeads; ++row) {
    const auto lse_of = [&](const AttentionPart& part) {
      return job::load_element(part.lse.data, part.lse.dtype, Parts::lse_at(part, row));
    };
    double sum = 0;
    for (const AttentionPart& part : of.parts) sum += std::exp(lse_of(part));
    EXPECT_NEAR(job::load_element(is.lse.view.data, is.lse.view.dtype, row), std::log(sum), 8 * 0x1p-23) << row;
    for (std::int64_t c = 0; c < kWidth; ++c) {
      double x = 0;
      for (const AttentionPart& part : of.parts) {
        const double weight = std::exp(lse_of(part)) / sum;
        if (weight != 0) x += weight * job::load_element(part.out.data, part.out.dtype, Parts::out_at(part, row) + c);
      }
      EXPECT_NEAR(job::load_element(is.out.view.data, is.out.view.dtype, row * kWidth + c), x, rounding) << row << ", channel " << c;
    }
  }
}

TEST(MergeManyOnHost, any_number_of_parts_is_the_definition) {
  for (const std::int64_t count : {1, 2, 95, 96, 97, 300, 1408}) {
    for (const auto& [dtype, rounding] : {std::pair{DType::f64, 1e-13}, {DType::f32, 0x1p-23}, {DType::bf16, 0x1p-9}}) {
      SCOPED_TRACE(std::to_string(count) + " parts of " + name_of(dtype));
      const Parts of(count, dtype, 11);
      const Merged merged(dtype);
      const Status s = merged.merge(of.parts);
      ASSERT_TRUE(s.ok()) << s.message();
      expect_merged(of, merged, rounding);
    }
  }
}

/// Many are merged as few are, in the same order.
TEST(MergeManyOnHost, has_the_bits_of_few_where_the_rest_saw_nothing) {
  Parts of(1408, DType::f32, 96);
  for (std::int64_t p = 96; p < 1408; ++p) {
    for (std::int64_t row = 0; row < 2 * kTokens * kHeads; ++row) of.see_nothing(p, row);
  }
  const Merged all(DType::f32), few(DType::f32);
  ASSERT_TRUE(all.merge(of.parts).ok());
  of.parts.resize(96);
  ASSERT_TRUE(few.merge(of.parts).ok());
  EXPECT_EQ(all.out.memory, few.out.memory);
  EXPECT_EQ(all.lse.memory, few.lse.memory);
}

TEST(MergeManyOnHost, a_result_may_take_the_place_of_a_part) {
  Parts of(200, DType::f64, 1);
  const Merged apart(DType::f64);
  ASSERT_TRUE(apart.merge(of.parts).ok());
  const AttentionPart& last = of.parts[177];
  const TensorView out = {of.outs[177].view.data, DType::f64, last.out.shape, last.out.strides};
  const TensorView lse = {of.lses[177].view.data, DType::f64, last.lse.shape, last.lse.strides};
  const ReplacedBackend general = general_attention();
  ASSERT_TRUE(merge_attention(of.parts, {out, lse}).ok());
  EXPECT_EQ(of.outs[177].memory, apart.out.memory);
}

TEST(MergeManyOnHost, says_what_a_parameter_cannot_hold) {
  const Merged merged(DType::f32);
  const auto message = [&](std::int64_t count, std::int64_t ways) { return merged.merge(Parts(count, DType::f32, ways).parts).message(); };
  EXPECT_EQ(message(1408, 96), "");
  EXPECT_EQ(message(1408, 97),
            "merge_attention: 1408 parts are more than the parameter of a CUDA kernel holds, wanted at most 1408 in at most 96 different "
            "strides");
  EXPECT_EQ(message(1409, 1),
            "merge_attention: 1409 parts are more than the parameter of a CUDA kernel holds, wanted at most 1408 in at most 96 different "
            "strides");
  EXPECT_EQ(message(96, 96), "");  // as many as before
}

}  // namespace
}  // namespace phasor::test
