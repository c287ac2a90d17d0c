// SPDX-License-Identifier: Apache-2.0
// Every property of a rerotation that does not fit is an error that says where, what is and what is wanted; and then nothing is written.
#include <functional>

#include "ops/rotary/rerotate_call.hpp"

namespace phasor::test {
namespace {

RotarySpec spec_of_10() { return {.head_dim = 10, .rotary_width = 8, .rotary_offset = 1}; }

/// A call that is right; each case spoils one thing. (B, T, H, D) = (2, 3, 3, 10), rotary width 8 at 1; a cache of 4 blocks of 3 slots.
struct Attempt {
  std::vector<float> memory = std::vector<float>(2000, 0.5F);
  std::vector<std::int64_t> numbers = {1, 2, 3, 4, 5, 6, 7};
  std::vector<std::int64_t> slots = {11, -4, 0};
  InOut keys = view(memory.data(), {2, 3, 3, 10});
  TensorView cache = view(memory.data(), {4, 3, 3, 10});
  RotarySpec from = spec_of_10();
  RotarySpec to = spec_of_10();
  Positions from_where = positions(numbers.data(), 3);
  Positions to_where = positions(numbers.data() + 2, 3);
  std::span<const std::int64_t> named = slots;
  ApplyOptions options;

  void both(const std::function<void(TensorView&)>& change) {  // in place
    change(cache);
    change(keys.out);
    keys.in = keys.out;
  }
};

struct Case {
  const char* wanted;  // a fragment of the message
  std::function<void(Attempt&)> spoil;
  ErrorKind kind = ErrorKind::invalid;
};

enum class Function { contiguous, paged };

Status run(Function function, Attempt& call) {
  const RotatedAt from = {make_rotary(call.from), call.from_where};
  const RotatedAt to = {make_rotary(call.to), call.to_where};
  if (function == Function::contiguous) return rerotate(call.keys, from, to, call.options);
  return rerotate(call.cache, call.named, from, to, call.options);
}

void check_cases(Function function, const std::vector<Case>& cases) {
  Attempt right;
  const Status sound = run(function, right);
  ASSERT_TRUE(sound.ok()) << sound.message();
  EXPECT_NE(right.memory, std::vector<float>(2000, 0.5F));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.wanted);
    Attempt call;
    c.spoil(call);
    const std::vector<float> before = call.memory;
    const Status status = run(function, call);
    EXPECT_EQ(status.kind(), c.kind);
    EXPECT_EQ(status.message().find("rerotate: "), 0U) << status.message();
    EXPECT_NE(status.message().find(c.wanted), std::string::npos) << status.message();
    EXPECT_EQ(call.memory, before);
  }
}

std::vector<Case> cases_of_specs() {
  return {
      {"from has head_dim 10 and to has 12, wanted the same", [](Attempt& c) { c.to.head_dim = 12; }},
      {"from has rotary_width 8 and to has 6, wanted the same", [](Attempt& c) { c.to.rotary_width = 6; }},
      {"from has rotary_offset 2 and to has 1, wanted the same", [](Attempt& c) { c.from.rotary_offset = 2; }},
      {"from and to write keys in different pairings", [](Attempt& c) { c.from.pairing = Pairing::interleaved; }},
      {"from and to write keys in different pairings", [](Attempt& c) { c.to.output_pairing = Pairing::interleaved; }},
      {"the amplitude changes from 1.152921504606847e+18 to 1e-09, wanted a quotient of 2^-64 to 2^64",
       [](Attempt& c) {
         c.from.scaling = GivenFactors{.factors = {1, 1, 1, 1}, .amplitude = 0x1p60};
         c.to.scaling = GivenFactors{.factors = {1, 1, 1, 1}, .amplitude = 1e-9};
       }},
      {"direction is 3, wanted forward, inverse or transpose", [](Attempt& c) { c.options.direction = Direction{3}; }},
  };
}

std::vector<Case> cases_of_a_view(const std::string& name) {
  static std::vector<std::string> texts;  // cases hold pointers
  texts = {name + " has head_dim 8, the spec wants 10",
           name + " has 0 heads, wanted at least 1",
           name + " has an unknown dtype (9)",
           name + " is written to a view in which elements repeat",
           name + " has null data",
           name + " has stride 2 on its last axis"};
  return {
      {texts[0].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.shape[3] = 8; }); }},
      {texts[1].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.shape[2] = 0; }); }},
      {texts[2].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.dtype = DType{9}; }); }},
      {texts[3].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.strides[1] = 0; }); }},
      {texts[4].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.data = nullptr; }); }},
      {texts[5].c_str(), [](Attempt& c) { c.both([](TensorView& v) { v.strides[3] = 2; }); }},
  };
}

std::vector<Case> cases_of_positions() {
  return {
      {"rerotate: from: positions have 2 tokens, wanted 3", [](Attempt& c) { c.from_where.shape[2] = 2; }},
      {"rerotate: to: positions have 4 tokens, wanted 3", [](Attempt& c) { c.to_where.shape[2] = 4; }},
      {"rerotate: from: positions have batch 3", [](Attempt& c) { c.from_where.shape[1] = 3; }},
      {"rerotate: to: positions have 2 axes", [](Attempt& c) { c.to_where.shape[0] = 2; }},
      {"rerotate: to: positions have null data and 3 tokens, wanted memory", [](Attempt& c) { c.to_where.data = nullptr; }},
      {"rerotate: from: positions have an unknown type (7)", [](Attempt& c) { c.from_where.type = PositionType{7}; }},
  };
}

TEST(RerotateInput, specs_that_do_not_fit_each_other_are_errors) {
  check_cases(Function::contiguous, cases_of_specs());
  check_cases(Function::paged, cases_of_specs());
}

TEST(RerotateInput, rotations_that_do_not_compose_exactly_are_unsupported) {
  const std::vector<Case> cases = {
      {"from has a numerics profile, wanted exact", [](Attempt& c) { c.from.numerics = Numerics::hf; }, ErrorKind::unsupported},
      {"to has a numerics profile, wanted exact", [](Attempt& c) { c.to.numerics = Numerics::vllm; }, ErrorKind::unsupported},
  };
  check_cases(Function::contiguous, cases);
  check_cases(Function::paged, cases);
}

TEST(RerotateInput, keys_and_caches_that_do_not_fit_are_errors) {
  check_cases(Function::contiguous, cases_of_a_view("keys"));
  check_cases(Function::paged, cases_of_a_view("cache"));
  check_cases(Function::contiguous, {{"keys's output overlaps its input", [](Attempt& c) { c.keys.out.data = c.memory.data() + 1; }},
                                     {"keys is read as f32 and written as f16", [](Attempt& c) { c.keys.out.dtype = DType::f16; }}});
}

TEST(RerotateInput, positions_of_either_side_that_do_not_fit_are_errors_that_name_the_side) {
  check_cases(Function::contiguous, cases_of_positions());
  check_cases(Function::paged, cases_of_positions());
  check_cases(Function::paged, {{"rerotate: to: positions have batch 2, wanted 1 or 1", [](Attempt& c) { c.to_where.shape[1] = 2; }}});
}

TEST(RerotateInput, what_is_read_must_not_lie_in_what_is_written) {
  const auto inside = [](Attempt& c) { return positions(reinterpret_cast<const std::int64_t*>(c.memory.data() + 20), 3); };
  check_cases(Function::contiguous,
              {{"positions overlap keys's output, wanted memory apart", [&](Attempt& c) { c.from_where = inside(c); }},
               {"positions overlap keys's output, wanted memory apart", [&](Attempt& c) { c.to_where = inside(c); }}});
  check_cases(Function::paged, {{"positions overlap cache's output, wanted memory apart", [&](Attempt& c) { c.to_where = inside(c); }},
                                {"slots overlap the cache, wanted memory apart", [](Attempt& c) {
                                   auto* slots = reinterpret_cast<std::int64_t*>(c.memory.data() + 30);
                                   for (int i = 0; i < 3; ++i) slots[i] = i;
                                   c.named = {slots, 3};
                                 }}});
}

TEST(RerotateInput, slots_out_of_range_or_named_twice_are_errors) {
  check_cases(Function::paged, {{"slots[0] is 12, the cache has 12 (4 blocks of 3 slots)", [](Attempt& c) { c.slots[0] = 12; }},
                                {"slots[2] is 9223372036854775807, the cache has 12", [](Attempt& c) { c.slots[2] = INT64_MAX; }},
                                {"slots[2] is 11 once more, wanted each slot once", [](Attempt& c) { c.slots[2] = 11; }},
                                {"slots[1] is 11 once more, wanted each slot once", [](Attempt& c) { c.slots[1] = 11; }},
                                {"slots[0] is 11, the cache has 0", [](Attempt& c) { c.cache.shape[0] = 0; }},
                                {"slots have null data and 3 tokens, wanted memory",
                                 [](Attempt& c) { c.named = {static_cast<const std::int64_t*>(nullptr), 3}; }}});
}

TEST(RerotateInput, the_same_slot_twice_is_fine_when_it_is_skipped) {
  Attempt call;
  call.slots = {-1, -1, 3};
  EXPECT_TRUE(run(Function::paged, call).ok());
}

TEST(RerotateInput, keys_of_no_tokens_are_fine) {
  Attempt call;
  call.keys = view(call.memory.data(), {2, 0, 3, 10});
  call.from_where = positions_from(1);
  call.to_where = positions_from(2);
  EXPECT_TRUE(run(Function::contiguous, call).ok());
  EXPECT_EQ(call.memory, std::vector<float>(2000, 0.5F));
}

}  // namespace
}  // namespace phasor::test
