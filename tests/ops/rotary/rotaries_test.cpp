// SPDX-License-Identifier: Apache-2.0
// apply_rotaries: every row has, bit for bit, what a call of its spec alone gives it; wrong lists are refused with words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/random_memory.hpp"
#include "cuda/random_specs.hpp"
#include "phasor/rotaries.hpp"

namespace phasor::test {
namespace {

/// A random call, and the same rows by calls of one spec each.
class RandomRotaries {
 public:
  explicit RandomRotaries(std::uint64_t seed) : draw_(seed), builder_(draw_) {
    const RotarySpec first = any_spec(draw_);
    add(first);
    for (std::int64_t more = draw_.between(0, 4); more > 0 && !rotaries_.empty(); --more) add(beside(draw_, first));
    if (rotaries_.empty()) return;
    const DType dtype = draw_.of({DType::f32, DType::f64, DType::f16, DType::bf16});
    direction_ = draw_.of({Direction::forward, Direction::inverse, Direction::transpose});
    const auto* directions = std::get_if<GivenDirections>(&first.scaling);
    const Extents shape = {draw_.between(1, 4), draw_.of<int64_t>({1, 3, 40, 70}),
                           directions != nullptr && directions->heads > 1 ? directions->heads : draw_.of<int64_t>({1, 2, 3, 7}),
                           first.head_dim};
    for (std::int64_t i = draw_.between(1, 2); i > 0; --i) {
      const Placed in = builder_.tensor(dtype, shape);
      operands_.emplace_back(in, draw_.one_in(2) ? in : builder_.like(in));
    }
    const std::int64_t axes =
        directions != nullptr ? directions->axes : std::max<std::int64_t>(1, static_cast<std::int64_t>(first.axes.sections.size()));
    positions_ = any_positions(draw_, builder_, axes, shape[0], shape[1]);
    by_token_ = draw_.one_in(2);
    for (std::int64_t i = 0; i < shape[0] * (by_token_ ? shape[1] : 1); ++i) {
      spec_of_.push_back(i > 0 && !draw_.one_in(3) ? spec_of_.back() : draw_.below(static_cast<std::int64_t>(rotaries_.size())));
    }
  }

  bool is_there() const { return !rotaries_.empty(); }
  std::size_t specs() const { return rotaries_.size(); }

  Status together(std::vector<std::vector<std::byte>>& buffers) {
    buffers = builder_.buffers;
    const RotaryList list = {rotaries_, integers(spec_of_.data(), static_cast<std::int64_t>(spec_of_.size()))};
    return apply(buffers, [&](auto&&... call) { return apply_rotaries(list, call...); });
  }
  /// Row by row what the call of the row's spec writes there; all else as it was.
  Status apart(std::vector<std::vector<std::byte>>& buffers) {
    buffers = builder_.buffers;
    for (std::size_t s = 0; s < rotaries_.size(); ++s) {
      std::vector<std::vector<std::byte>> of_spec = builder_.buffers;
      const Status status = apply(of_spec, [&](auto&&... call) { return rotaries_[s].apply(call...); });
      if (!status.ok()) return status;
      for (const auto& operand : operands_) take_rows(operand.second, static_cast<std::int64_t>(s), of_spec, buffers);
    }
    return {};
  }

 private:
  void add(const RotarySpec& spec) {
    if (const Result<Rotary> made = Rotary::make(spec)) rotaries_.push_back(*made);
  }
  template <class Apply>
  Status apply(std::vector<std::vector<std::byte>>& buffers, const Apply& call) const {
    std::vector<std::byte*> memory;
    for (auto& buffer : buffers) memory.push_back(buffer.data());
    const auto in_out = [&](std::size_t i) {
      return InOut(ConstTensorView(operands_[i].first.at(memory, {})), operands_[i].second.at(memory, {}));
    };
    const ApplyOptions options = {direction_, {}};
    if (operands_.size() == 1) return call(in_out(0), positions_.at(memory, {}), options);
    return call(in_out(0), in_out(1), positions_.at(memory, {}), options);
  }
  void take_rows(const Placed& out, std::int64_t spec, const std::vector<std::vector<std::byte>>& from,
                 std::vector<std::vector<std::byte>>& to) const {
    const auto& [batch, tokens, heads, channels] = out.shape;
    const std::int64_t size = bytes_of(out.dtype);
    for (std::int64_t row = 0; row < batch * tokens; ++row) {
      if (spec_of_[static_cast<std::size_t>(by_token_ ? row : row / tokens)] != spec) continue;
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t at = out.first + row / tokens * out.strides[0] + row % tokens * out.strides[1] + h * out.strides[2];
        std::memcpy(to[out.buffer].data() + at * size, from[out.buffer].data() + at * size, static_cast<std::size_t>(channels * size));
      }
    }
  }

  Draw draw_;
  Builder builder_;
  std::vector<Rotary> rotaries_;
  std::vector<std::pair<Placed, Placed>> operands_;
  PlacedPositions positions_;
  std::vector<std::int64_t> spec_of_;
  bool by_token_ = false;
  Direction direction_ = Direction::forward;
};

void expect_rows_of_calls_apart(std::uint64_t first, std::uint64_t end, int least) {
  int compared = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    RandomRotaries call(seed);
    if (!call.is_there()) continue;
    std::vector<std::vector<std::byte>> together;
    std::vector<std::vector<std::byte>> apart;
    const Status wanted = call.apart(apart);
    const Status status = call.together(together);
    ASSERT_EQ(status.ok(), wanted.ok()) << "seed " << seed << ": " << status.message() << ", " << wanted.message();
    if (!status.ok()) continue;
    compared += call.specs() > 1 ? 1 : 0;
    ASSERT_TRUE(together == apart) << "seed " << seed;
  }
  EXPECT_GE(compared, least);
}

TEST(Rotaries, give_each_row_what_a_call_of_its_spec_gives) { expect_rows_of_calls_apart(1, 60, 20); }
TEST(Rotaries, hundreds_of_random_calls_give_each_row_what_a_call_of_its_spec_gives) { expect_rows_of_calls_apart(60, 600, 200); }

/// A call that is sound until a test makes something of it wrong: two specs, two batch rows of three tokens.
struct Sound {
  std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 8}), *Rotary::make({.head_dim = 8, .base = 500000})};
  std::vector<std::int64_t> spec_of = {0, 1};
  std::vector<float> q = std::vector<float>(2 * 3 * 8, 1.5F);

  IntegerList list() const { return integers(spec_of.data(), static_cast<std::int64_t>(spec_of.size())); }
  Status apply(const IntegerList& of) {
    const Status status = apply_rotaries({rotaries, of}, view(q.data(), {2, 3, 1, 8}), positions_from(1));
    EXPECT_EQ(status.ok(), q != std::vector<float>(q.size(), 1.5F)) << "written although it failed, or not written";
    return status;
  }
  std::string says() { return apply(list()).message(); }
};

TEST(Rotaries, want_one_index_for_each_row_or_token) {
  Sound call;
  EXPECT_TRUE(call.apply(call.list()).ok());
  Sound wrong;
  wrong.spec_of = {0, 1, 0};
  EXPECT_EQ(wrong.says(), "apply_rotaries: spec_of has 3 entries, wanted 2 (one per batch row) or 6 (one per token)");
  wrong.spec_of = {};
  EXPECT_EQ(wrong.says(), "apply_rotaries: spec_of has 0 entries, wanted 2 (one per batch row) or 6 (one per token)");
}

TEST(Rotaries, refuse_an_index_that_no_rotary_has_and_name_it) {
  Sound call;
  call.spec_of = {0, 2};
  EXPECT_EQ(call.says(), "apply_rotaries: spec_of[1] is 2, wanted 0 to 1");
  call.spec_of = {0, 1, 0, 1, -1, 0};
  EXPECT_EQ(call.says(), "apply_rotaries: spec_of[4] is -1, wanted 0 to 1");
}

TEST(Rotaries, refuse_lists_of_other_types_and_places) {
  Sound call;
  IntegerList list = call.list();
  list.type = PositionType::f64;
  EXPECT_EQ(call.apply(list).message(), "apply_rotaries: spec_of has an unknown type (2), wanted int32 or int64");
  list = call.list();
  list.device = {DeviceKind::cuda, 1};
  EXPECT_NE(call.apply(list).message().find("cuda:1"), std::string::npos);
  list = integers(reinterpret_cast<const std::int32_t*>(call.q.data()), 2);
  EXPECT_EQ(call.apply(list).message(), "apply_rotaries: spec_of overlaps q's output, wanted memory apart");
  list.data = nullptr;
  EXPECT_EQ(call.apply(list).message(), "apply_rotaries: spec_of is null and has 2 entries, wanted memory");
}

TEST(Rotaries, refuse_specs_whose_rows_are_applied_differently) {
  const RotarySpec sound = {.head_dim = 8};
  const std::vector<RotarySpec> others = {{.head_dim = 8, .rotary_width = 4},
                                          {.head_dim = 8, .pairing = Pairing::interleaved},
                                          {.head_dim = 8, .output_pairing = Pairing::interleaved},
                                          {.head_dim = 8, .sense = Sense::clockwise},
                                          {.head_dim = 8, .segments = 2},
                                          {.head_dim = 8, .numerics = Numerics::hf}};
  for (const RotarySpec& other : others) {
    Sound call;
    call.rotaries = {*Rotary::make(sound), *Rotary::make(other)};
    EXPECT_EQ(call.says(),
              "apply_rotaries: rotaries differ in more than base, scaling and axes, wanted one geometry, pairing, sense and numerics");
  }
  Sound none;
  none.rotaries.clear();
  EXPECT_EQ(none.says(), "apply_rotaries: rotaries has 0 entries, wanted 1 at least");
}

TEST(Rotaries, of_one_spec_need_no_list_and_may_have_one) {
  Sound call;
  call.rotaries.resize(1, call.rotaries[0]);
  std::vector<float> wanted = call.q;
  ASSERT_TRUE(call.rotaries[0].apply(view(wanted.data(), {2, 3, 1, 8}), positions_from(1)).ok());
  ASSERT_TRUE(call.apply({}).ok());
  EXPECT_EQ(call.q, wanted);
  Sound listed;
  listed.rotaries.resize(1, listed.rotaries[0]);
  listed.spec_of = {0, 0};
  ASSERT_TRUE(listed.apply(listed.list()).ok());
  EXPECT_EQ(listed.q, wanted);
}

TEST(Rotaries, of_no_rows_write_nothing) {
  const std::vector<Rotary> rotaries(2, *Rotary::make({.head_dim = 8}));
  std::vector<float> q(8);
  const std::vector<std::int64_t> none;
  EXPECT_TRUE(apply_rotaries({rotaries, integers(none.data(), 0)}, view(q.data(), {0, 3, 1, 8}), positions_from(1)).ok());
}

}  // namespace
}  // namespace phasor::test
