// SPDX-License-Identifier: Apache-2.0
// Every property of a call that does not fit is an error that says where, what is and what is wanted; and then nothing is written.
#include <chrono>
#include <functional>
#include <memory>

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t huge = std::int64_t{1} << 56;

/// A call that is right; each case spoils one thing. (B, T, H, D) = (2, 3, 3 or 1, 10), rotary width 8 at 1.
struct Attempt {
  std::vector<float> memory = std::vector<float>(2000, 0.5F);
  std::vector<std::int64_t> numbers = {1, 2, 3, 4, 5, 6, 7};
  InOut q = view(memory.data(), {2, 3, 3, 10});
  InOut k = view(memory.data() + 300, {2, 3, 1, 10});
  Positions where = positions(numbers.data(), 2, 3);
  TensorView cos = view(memory.data() + 600, {2, 3, 1, 4});
  TensorView sin = view(memory.data() + 700, {2, 3, 1, 4});
  TableLayout layout = {.rotary_width = 8, .rotary_offset = 1};
  ApplyOptions options;

  void both(const std::function<void(TensorView&)>& change) {  // q in place
    change(q.out);
    q.in = q.out;
  }
};

Rotary rotary_of_10() { return make_rotary({.head_dim = 10, .rotary_width = 8, .rotary_offset = 1}); }

struct Case {
  const char* wanted;  // a fragment of the message
  std::function<void(Attempt&)> spoil;
};

enum class Function { apply, apply_q, tables, rows };

Status run(Function function, Attempt& call, const Rotary& rotary) {
  switch (function) {
    case Function::apply:
      return rotary.apply(call.q, call.k, call.where, call.options);
    case Function::apply_q:
      return rotary.apply(call.q, call.where, call.options);
    case Function::tables:
      return apply_rotary(call.q, call.k, call.cos, call.sin, call.layout, call.options);
    case Function::rows:
      return rotary.cos_sin(call.where, call.cos, call.sin, call.options);
  }
  return {};
}

void check_cases(Function function, const char* where, const std::vector<Case>& cases) {
  const Rotary rotary = rotary_of_10();
  Attempt right;
  const Status sound = run(function, right, rotary);
  ASSERT_TRUE(sound.ok()) << sound.message();
  EXPECT_NE(right.memory, std::vector<float>(2000, 0.5F));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.wanted);
    Attempt call;
    c.spoil(call);
    const std::vector<float> before = call.memory;
    const Status status = run(function, call, rotary);
    EXPECT_EQ(status.kind(), ErrorKind::invalid);
    EXPECT_EQ(status.message().find(std::string(where) + ": "), 0U) << status.message();
    EXPECT_NE(status.message().find(c.wanted), std::string::npos) << status.message();
    EXPECT_EQ(call.memory, before);
  }
}

/// The same wrong view for q and for k.
std::vector<Case> cases_of_a_view() {
  return {
      {"q has head_dim 8, the spec wants 10", [](Attempt& c) { c.both([](TensorView& v) { v.shape[3] = 8; }); }},
      {"q has head_dim 12, the spec wants 10",
       [](Attempt& c) { c.both([](TensorView& v) { v = view(static_cast<float*>(v.data), {2, 3, 1, 12}); }); }},
      {"q has 0 heads, wanted at least 1", [](Attempt& c) { c.both([](TensorView& v) { v.shape[2] = 0; }); }},
      {"q has heads -1, wanted 0 to 2^56", [](Attempt& c) { c.both([](TensorView& v) { v.shape[2] = -1; }); }},
      {"q has batch -2, wanted 0 to 2^56", [](Attempt& c) { c.both([](TensorView& v) { v.shape[0] = -2; }); }},
      {"q has tokens -9223372036854775808, wanted", [](Attempt& c) { c.both([](TensorView& v) { v.shape[1] = INT64_MIN; }); }},
      {"q has head_dim 9223372036854775807, wanted", [](Attempt& c) { c.both([](TensorView& v) { v.shape[3] = INT64_MAX; }); }},
      {"q has null data and 2 x 3 x 3 x 10 elements, wanted memory", [](Attempt& c) { c.both([](TensorView& v) { v.data = nullptr; }); }},
      {"q has stride 2 on its last axis, wanted 1", [](Attempt& c) { c.both([](TensorView& v) { v.strides[3] = 2; }); }},
      {"q has stride 0 on its last axis, wanted 1", [](Attempt& c) { c.both([](TensorView& v) { v.strides[3] = 0; }); }},
      {"q has stride -1 on its last axis, wanted 1", [](Attempt& c) { c.both([](TensorView& v) { v.strides[3] = -1; }); }},
      {"q is not aligned to its elements of 4 bytes",
       [](Attempt& c) { c.both([](TensorView& v) { v.data = static_cast<std::byte*>(v.data) + 2; }); }},
      {"q has an unknown dtype (77), wanted f32, f64, f16 or bf16", [](Attempt& c) { c.both([](TensorView& v) { v.dtype = DType{77}; }); }},
      {"q has stride 9223372036854775807 on batch, wanted at most 2^56",
       [](Attempt& c) { c.both([](TensorView& v) { v.strides[0] = INT64_MAX; }); }},
      {"q has stride -9223372036854775808 on tokens, wanted", [](Attempt& c) { c.both([](TensorView& v) { v.strides[1] = INT64_MIN; }); }},
      {"q reaches beyond 2^56 elements: 3 heads of stride", [](Attempt& c) { c.both([](TensorView& v) { v.strides[2] = huge / 2; }); }},
      {"q is written to a view in which elements repeat", [](Attempt& c) { c.both([](TensorView& v) { v.strides[0] = 0; }); }},
      {"q is written to a view in which elements repeat", [](Attempt& c) { c.both([](TensorView& v) { v.strides[2] = 9; }); }},
      {"q is written to a view in which elements repeat", [](Attempt& c) { c.both([](TensorView& v) { v.strides[1] = -10; }); }},
      {"q is read as f32 and written as f64, wanted one dtype",
       [](Attempt& c) {
         c.q.out.dtype = DType::f64;
         c.q.out.data = c.memory.data() + 1000;
       }},
      {"q is read and written with different shapes", [](Attempt& c) { c.q.out.shape[1] = 2; }},
      {"q's output overlaps its input", [](Attempt& c) { c.q.out.data = c.memory.data() + 1; }},
      {"q's output overlaps its input", [](Attempt& c) { c.q.out.data = c.memory.data() + 179; }},
      {"q's output overlaps its input", [](Attempt& c) { c.q.out.strides = {30, 60, 10, 1}; }},
      {"direction is 9, wanted forward, inverse or transpose", [](Attempt& c) { c.options.direction = Direction{9}; }},
  };
}

std::vector<Case> cases_of_two_tensors() {
  return {
      {"k has head_dim 8, the spec wants 10", [](Attempt& c) { c.k.out.shape[3] = c.k.in.shape[3] = 8; }},
      {"k has 0 heads", [](Attempt& c) { c.k.out.shape[2] = c.k.in.shape[2] = 0; }},
      {"k has null data", [](Attempt& c) { c.k.in.data = nullptr; }},
      {"k is written to a view in which elements repeat",
       [](Attempt& c) {
         c.k.out.strides[1] = 5;
         c.k.in = c.k.out;
       }},
      {"k's output overlaps its input", [](Attempt& c) { c.k.out.data = c.memory.data() + 303; }},
      {"q has batch 2 and k has 1, wanted the same", [](Attempt& c) { c.k.out.shape[0] = c.k.in.shape[0] = 1; }},
      {"q has tokens 3 and k has 2, wanted the same", [](Attempt& c) { c.k.out.shape[1] = c.k.in.shape[1] = 2; }},
      {"q is f32 and k is bf16, wanted one dtype", [](Attempt& c) { c.k.out.dtype = c.k.in.dtype = DType::bf16; }},
      {"q and k share an element", [](Attempt& c) { c.k = c.q; }},
      {"q and k share an element", [](Attempt& c) { c.k = view(c.memory.data() + 179, {2, 3, 1, 10}); }},
      {"q's output overlaps k's input",
       [](Attempt& c) {
         c.q.out.data = c.memory.data() + 359;
         c.k.out.data = c.memory.data() + 1000;
       }},
      {"k's output overlaps q's input",
       [](Attempt& c) {
         c.q.out.data = c.memory.data() + 1000;
         c.k.out.data = c.memory.data() + 100;
       }},
  };
}

std::vector<Case> cases_of_positions() {
  return {
      {"positions have 4 tokens, wanted 3", [](Attempt& c) { c.where.shape[2] = 4; }},
      {"positions have 0 tokens, wanted 3", [](Attempt& c) { c.where.shape[2] = 0; }},
      {"positions have -3 tokens, wanted 3", [](Attempt& c) { c.where.shape[2] = -3; }},
      {"positions have batch 3, wanted 1 or 2", [](Attempt& c) { c.where.shape[1] = 3; }},
      {"positions have batch 0, wanted 1 or 2", [](Attempt& c) { c.where.shape[1] = 0; }},
      {"positions have 2 axes, the spec wants 1", [](Attempt& c) { c.where.shape[0] = 2; }},
      {"positions have an unknown type (9), wanted i32, i64 or f64", [](Attempt& c) { c.where.type = PositionType{9}; }},
      {"positions have null data and 3 tokens, wanted memory", [](Attempt& c) { c.where.data = nullptr; }},
      {"positions is not aligned to its elements of 8 bytes",
       [](Attempt& c) { c.where.data = reinterpret_cast<const std::byte*>(c.numbers.data()) + 4; }},
      {"positions has stride 9223372036854775807 on heads, wanted at most 2^56", [](Attempt& c) { c.where.strides[2] = INT64_MAX; }},
      {"positions reaches beyond 2^56 elements", [](Attempt& c) { c.where.strides[1] = huge; }},
  };
}

TEST(BadInput, a_view_that_does_not_fit_is_an_error_of_apply) { check_cases(Function::apply_q, "apply_rotary", cases_of_a_view()); }

TEST(BadInput, a_q_and_a_k_that_do_not_fit_are_an_error_of_apply) { check_cases(Function::apply, "apply_rotary", cases_of_two_tensors()); }

TEST(BadInput, positions_that_do_not_fit_are_an_error_of_apply) {
  check_cases(Function::apply, "apply_rotary", cases_of_positions());
  check_cases(Function::apply_q, "apply_rotary", cases_of_positions());
}

TEST(BadInput, positions_and_tables_inside_an_output_are_an_error) {
  const std::vector<Case> in_q = {{"positions overlap q's output, wanted memory apart", [](Attempt& c) {
                                     c.where = positions(reinterpret_cast<const std::int64_t*>(c.memory.data() + 178), 3);
                                   }}};
  check_cases(Function::apply, "apply_rotary", in_q);
  check_cases(Function::apply_q, "apply_rotary", in_q);
  check_cases(Function::apply, "apply_rotary", {{"positions overlap k's output", [](Attempt& c) {
                                                   c.where = positions(reinterpret_cast<const std::int32_t*>(c.memory.data() + 359), 3);
                                                 }}});
  check_cases(Function::tables, "apply_rotary",
              {{"tables (cos) overlap q's output, wanted memory apart", [](Attempt& c) { c.cos.data = c.memory.data() + 179; }},
               {"tables (sin) overlap k's output, wanted memory apart", [](Attempt& c) { c.sin.data = c.memory.data() + 280; }}});
  check_cases(Function::rows, "cos_sin", {{"positions overlap an output, wanted memory apart", [](Attempt& c) {
                                             c.where = positions(reinterpret_cast<const std::int32_t*>(c.memory.data() + 723), 3);
                                           }}});
}

TEST(BadInput, positions_that_do_not_fit_are_an_error_of_cos_sin) { check_cases(Function::rows, "cos_sin", cases_of_positions()); }

TEST(BadInput, a_view_that_does_not_fit_is_an_error_of_apply_rotary) {
  std::vector<Case> cases = cases_of_a_view();
  cases.erase(cases.begin(), cases.begin() + 2);  // by tables any head_dim is right that q and k share
  check_cases(Function::tables, "apply_rotary", cases);
  std::vector<Case> pair = cases_of_two_tensors();
  pair.erase(pair.begin());
  check_cases(Function::tables, "apply_rotary", pair);
  check_cases(Function::tables, "apply_rotary",
              {{"k has head_dim 8, the spec wants 10", [](Attempt& c) { c.k.out.shape[3] = c.k.in.shape[3] = 8; }}});
}

TEST(BadInput, tables_and_layouts_that_do_not_fit_are_errors_of_apply_rotary) {
  check_cases(Function::tables, "apply_rotary",
              {
                  {"rotary_width is 7, wanted an even number", [](Attempt& c) { c.layout.rotary_width = 7; }},
                  {"rotary_width is -8, wanted an even number", [](Attempt& c) { c.layout.rotary_width = -8; }},
                  {"rotary_width 12 at rotary_offset 0 does not fit head_dim 10", [](Attempt& c) { c.layout = {.rotary_width = 12}; }},
                  {"rotary_width 8 at rotary_offset 3 does not fit head_dim 10", [](Attempt& c) { c.layout.rotary_offset = 3; }},
                  {"rotary_width 8 at rotary_offset -1 does not fit", [](Attempt& c) { c.layout.rotary_offset = -1; }},
                  {"rotary_offset 9223372036854775807 does not fit", [](Attempt& c) { c.layout.rotary_offset = INT64_MAX; }},
                  {"rotary_width 9223372036854775806 at", [](Attempt& c) { c.layout.rotary_width = INT64_MAX - 1; }},
                  {"unknown pairing, wanted half or interleaved", [](Attempt& c) { c.layout.pairing = Pairing{9}; }},
                  {"unknown pairing, wanted half or interleaved", [](Attempt& c) { c.layout.output_pairing = Pairing{2}; }},
                  {"unknown sense (9), wanted counterclockwise or clockwise", [](Attempt& c) { c.layout.sense = Sense{9}; }},
                  {"cos has batch 3, wanted 1 or 2", [](Attempt& c) { c.cos.shape[0] = 3; }},
                  {"sin has 2 tokens, wanted 3", [](Attempt& c) { c.sin.shape[1] = 2; }},
                  {"cos has 2 heads, wanted 1", [](Attempt& c) { c.cos.shape[2] = 2; }},
                  {"cos has width 5, wanted 4 (one value per pair) or 8 (one value per channel)", [](Attempt& c) { c.cos.shape[3] = 5; }},
                  {"cos has width 4 and sin has 8, wanted the same", [](Attempt& c) { c.sin = view(c.memory.data() + 700, {2, 3, 1, 8}); }},
                  {"cos is f32 and sin is f16, wanted one dtype", [](Attempt& c) { c.sin.dtype = DType::f16; }},
                  {"cos is f64 and q is f32", [](Attempt& c) { c.cos.dtype = c.sin.dtype = DType::f64; }},
                  {"cos has null data", [](Attempt& c) { c.cos.data = nullptr; }},
                  {"sin has an unknown dtype (4)", [](Attempt& c) { c.sin.dtype = DType{4}; }},
                  {"sin has stride 2 on its last axis", [](Attempt& c) { c.sin.strides[3] = 2; }},
                  {"cos is not aligned", [](Attempt& c) { c.cos.data = static_cast<std::byte*>(c.cos.data) + 1; }},
                  {"cos reaches beyond 2^56 elements", [](Attempt& c) { c.cos.strides[1] = huge / 2; }},
              });
}

TEST(BadInput, rows_that_do_not_fit_are_errors_of_cos_sin) {
  check_cases(Function::rows, "cos_sin",
              {
                  {"cos is bf16, wanted f32 or f64", [](Attempt& c) { c.cos.dtype = DType::bf16; }},
                  {"sin is f16, wanted f32 or f64", [](Attempt& c) { c.sin.dtype = DType::f16; }},
                  {"cos and sin differ in dtype or shape", [](Attempt& c) { c.sin.dtype = DType::f64; }},
                  {"cos and sin differ in dtype or shape", [](Attempt& c) { c.sin.shape[1] = 2; }},
                  {"cos has 0 heads, wanted 1", [](Attempt& c) { c.cos.shape[2] = 0; }},
                  {"sin has width 8, wanted 4", [](Attempt& c) { c.sin.shape[3] = 8; }},
                  {"cos is a view in which elements repeat", [](Attempt& c) { c.cos.strides[0] = 0; }},
                  {"cos and sin share an element", [](Attempt& c) { c.sin = c.cos; }},
                  {"cos and sin share an element", [](Attempt& c) { c.sin.data = c.memory.data() + 623; }},
                  {"cos has null data", [](Attempt& c) { c.cos.data = nullptr; }},
                  {"sin has tokens -3", [](Attempt& c) { c.sin.shape[1] = -3; }},
                  {"direction is 3", [](Attempt& c) { c.options.direction = Direction{3}; }},
              });
}

TEST(BadInput, an_output_next_to_its_input_or_between_its_elements_is_fine) {
  const Rotary rotary = rotary_of_10();
  Attempt call;
  call.q.out.data = call.memory.data() + 180;
  EXPECT_TRUE(rotary.apply(call.q, call.where).ok());
  const Extents comb = {120, 40, 20, 1};  // every other head of each token
  call.q = {view(call.memory.data() + 1000, {2, 3, 2, 10}, comb), view(call.memory.data() + 1010, {2, 3, 2, 10}, comb)};
  EXPECT_TRUE(rotary.apply(call.q, call.where).ok());
  call.q.out.data = call.memory.data() + 1009;
  EXPECT_FALSE(rotary.apply(call.q, call.where).ok());
}

TEST(BadInput, strides_too_tangled_to_decide_are_refused_quickly) {
  const Rotary rotary = rotary_of_10();
  Attempt call;
  const std::int64_t many = std::int64_t{1} << 24;
  call.q = view(call.memory.data(), {many, many, many, 10}, {999999937, 999999893, 999999883, 1});
  const auto start = std::chrono::steady_clock::now();
  const Status status = rotary.apply(call.q, positions_from(0));
  EXPECT_FALSE(status.ok());
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);  // as in overlap_test
  EXPECT_EQ(call.memory, std::vector<float>(2000, 0.5F));
}

TEST(BadInput, a_wide_empty_tensor_across_pairings_is_fine_in_place_and_out) {
  const Rotary rotary = make_rotary({.head_dim = 8192, .output_pairing = Pairing::interleaved});
  std::vector<float> memory(2);
  const Extents none = {1, 0, 1, 8192};
  EXPECT_TRUE(rotary.apply(view(memory.data(), none), positions_from(0)).ok());
  EXPECT_TRUE(rotary.apply({view(memory.data(), none), view(memory.data() + 1, none)}, positions_from(0)).ok());
}

TEST(BadInput, a_tensor_without_channels_may_have_any_extents_and_strides_besides) {
  std::vector<double> memory(16);
  const std::int64_t many = std::int64_t{1} << 40;
  const Extents shape = {many, many, 1, 0};
  const Extents strides = {std::int64_t{1} << 62, INT64_MAX, INT64_MIN, 1};
  const ConstTensorView row = view(static_cast<const double*>(nullptr), {1, many, 1, 0});
  EXPECT_TRUE(apply_rotary({view(memory.data(), shape, strides), view(memory.data() + 8, shape, strides)}, row, row).ok());
}

TEST(BadInput, in_place_across_pairings_beyond_the_buffer_is_unsupported_and_says_so) {
  const Rotary rotary = make_rotary({.head_dim = 4098, .output_pairing = Pairing::interleaved});
  std::vector<float> memory(4098, 0.5F);
  const Status status = rotary.apply(view(memory.data(), {1, 1, 1, 4098}), positions_from(1));
  EXPECT_EQ(status.kind(), ErrorKind::unsupported);
  EXPECT_EQ(status.message(), "apply_rotary: rotary_width is 4098, in place from one pairing to the other at most 4096 is supported");
  EXPECT_EQ(memory, std::vector<float>(4098, 0.5F));
}

}  // namespace
}  // namespace phasor::test
