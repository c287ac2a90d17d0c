// SPDX-License-Identifier: Apache-2.0
// Rotation by given tables in the numerics of transformers: bit for bit what its models' functions gave when they were recorded.
#include "ops/rotary/rotary_call.hpp"
#include "recorded.hpp"

namespace phasor::test {
namespace {

using ProfileHf = EveryTarget;

template <class T>
std::vector<T> elements(const std::vector<std::uint32_t>& bits) {
  std::vector<T> values;
  for (const std::uint32_t b : bits) values.push_back(Element<T>::from_bits(b));
  return values;
}

/// The case of one title line: name dtype table_dtype head_dim rotary_width pairing output_pairing sense numerics.
struct Case {
  const Record& record;
  std::string word(std::size_t i) const { return record.title.at(i); }
  std::int64_t head_dim() const { return std::stoll(word(3)); }
  std::int64_t width() const { return std::stoll(word(4)); }
};

Pairing pairing_named(const std::string& name) { return name == "half" ? Pairing::half : Pairing::interleaved; }

TableLayout layout_of(const Case& c) {
  TableLayout layout;
  layout.rotary_width = c.width();
  layout.pairing = pairing_named(c.word(5));
  layout.output_pairing = pairing_named(c.word(6));
  layout.sense = c.word(7) == "cw" ? Sense::clockwise : Sense::counterclockwise;
  layout.numerics = c.word(8) == "hf" ? Numerics::hf : c.word(8) == "vllm" ? Numerics::vllm : Numerics::hf_float32;
  return layout;
}

/// Out of place, then in place.
template <class T, class Table>
void check_case(const Case& c) {
  SCOPED_TRACE(c.word(0) + " " + c.word(1) + " " + c.word(3));
  const std::vector<Table> cos = elements<Table>(c.record.bits("cos"));
  const std::vector<Table> sin = elements<Table>(c.record.bits("sin"));
  std::vector<T> x = elements<T>(c.record.bits("in"));
  const std::vector<T> wanted = elements<T>(c.record.bits("out"));
  const std::int64_t pairs = c.width() / 2;
  const auto tokens = static_cast<std::int64_t>(cos.size()) / pairs;
  const auto heads = static_cast<std::int64_t>(x.size()) / tokens / c.head_dim();
  const Extents shape = {1, tokens, heads, c.head_dim()};
  const Extents rows = {1, tokens, 1, pairs};
  std::vector<T> out(x.size());
  const ConstTensorView in = view(std::as_const(x).data(), shape);
  const Status apart = apply_rotary(InOut(in, view(out.data(), shape)), view(cos.data(), rows), view(sin.data(), rows), layout_of(c));
  ASSERT_TRUE(apart.ok()) << apart.message();
  EXPECT_TRUE(same_numbers(out, wanted));
  const Status inside = apply_rotary(view(x.data(), shape), view(cos.data(), rows), view(sin.data(), rows), layout_of(c));
  ASSERT_TRUE(inside.ok()) << inside.message();
  EXPECT_TRUE(same_numbers(x, wanted)) << "in place";
}

template <class T>
void check_table_dtypes(const Case& c) {
  if (c.word(2) == "f32") return check_case<T, float>(c);
  if (c.word(2) == "f16") return check_case<T, Float16>(c);
  check_case<T, BFloat16>(c);
}

TEST_F(ProfileHf, given_its_tables_the_output_is_that_of_transformers_bit_for_bit) {
  const std::vector<Record> records = read_records("hf_rotation.txt");
  EXPECT_EQ(records.size(), 36U);
  on_every_target([&] {
    for (const Record& record : records) {
      const Case c = {record};
      if (c.word(1) == "f32") check_table_dtypes<float>(c);
      if (c.word(1) == "f16") check_table_dtypes<Float16>(c);
      if (c.word(1) == "bf16") check_table_dtypes<BFloat16>(c);
    }
  });
}

/// The records must be able to tell the profiles apart.
TEST_F(ProfileHf, exact_numerics_do_not_give_what_transformers_gave_in_bfloat16) {
  for (const Record& record : read_records("hf_rotation.txt")) {
    const Case c = {record};
    if (c.word(0) != "llama" || c.word(1) != "bf16") continue;
    const std::vector<BFloat16> cos = elements<BFloat16>(record.bits("cos"));
    const std::vector<BFloat16> sin = elements<BFloat16>(record.bits("sin"));
    std::vector<BFloat16> x = elements<BFloat16>(record.bits("in"));
    const Extents rows = {1, 4, 1, c.width() / 2};
    TableLayout layout = layout_of(c);
    layout.numerics = Numerics::exact;
    ASSERT_TRUE(apply_rotary(view(x.data(), {1, 4, 2, c.head_dim()}), view(cos.data(), rows), view(sin.data(), rows), layout).ok());
    EXPECT_FALSE(same_numbers(x, elements<BFloat16>(record.bits("out"))));
  }
}

}  // namespace
}  // namespace phasor::test
