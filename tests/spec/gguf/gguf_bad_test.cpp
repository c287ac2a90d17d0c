// SPDX-License-Identifier: Apache-2.0
// GGUF files that lie: every one is an error with a reason, none reads outside its bytes or asks for the memory it claims.
#include <gtest/gtest.h>

#include <limits>

#include "gguf_bytes.hpp"
#include "golden_file.hpp"
#include "phasor/model.hpp"

namespace phasor::test {
namespace {

constexpr std::uint64_t huge = std::uint64_t{1} << 63;
constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

std::string message_of(const std::string& bytes) { return parse_gguf(as_bytes(bytes)).status().message(); }

/// The file is refused, and the message has this in it.
void expect_refused(const std::string& bytes, std::string_view reason) {
  const std::string message = message_of(bytes);
  EXPECT_NE(message.find(reason), std::string::npos) << (message.empty() ? "accepted" : message);
}

std::string header(std::uint32_t version, std::uint64_t tensors, std::uint64_t keys) {
  return "GGUF" + raw(version) + raw(tensors) + raw(keys);
}

TEST(GgufBad, truncation_at_every_byte_is_an_error_until_the_end) {
  for (const char* name : {"phi3", "gemma4", "llama-3.1-big-endian", "t5"}) {
    const std::string whole = file_bytes(golden_file("gguf/" + std::string(name) + ".gguf"));
    ASSERT_TRUE(parse_gguf(as_bytes(whole)).ok());
    for (std::size_t length = 0; length < whole.size(); ++length) {
      // A copy of exactly that length, so that a sanitizer sees the first byte too many.
      const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const Result<ModelPositions> result = parse_gguf(std::as_bytes(std::span(part)));
      // The padding after the last tensor may be missing.
      EXPECT_TRUE(!result.ok() || length + 31 >= whole.size()) << name << " cut to " << length;
    }
  }
}

TEST(GgufBad, every_byte_changed_gives_an_answer) {
  const std::string whole = file_bytes(golden_file("gguf/deepseek2.gguf"));
  std::int64_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string changed = whole;
      changed[at] = value;
      refused += parse_gguf(as_bytes(changed)).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(GgufBad, the_header_must_fit) {
  expect_refused("", "the file is empty");
  expect_refused("GGU", "magic takes 4 bytes, 3 are left");
  expect_refused("GGML" + raw(3U), "the magic is not GGUF");
  for (const std::uint32_t version : {0U, 4U, 999U, 0x01000000U, 0x02000000U, 0xffffffffU}) {
    expect_refused(header(version, 0, 0), "wanted 1, 2 or 3");
  }
  expect_refused(header(3, 0, 0), "general.architecture is missing");
  expect_refused(header(3, 0, most), "key count is 18446744073709551615");
  expect_refused(header(3, most, 0), "tensor count is 18446744073709551615");
  expect_refused(header(3, 0, 2) + std::string(20, '\0'), "key count is 2, wanted at most 1");
  // 2^60 infos of 24 bytes: the product would wrap, nothing is reserved.
  expect_refused(header(3, std::uint64_t{1} << 60, 0), "tensor count");
}

TEST(GgufBad, lengths_of_text_are_bounded) {
  expect_refused(header(3, 0, 1) + raw(huge) + std::string(64, 'x'), "has 9223372036854775808 bytes, wanted at most 1048576");
  expect_refused(header(3, 0, 1) + raw(most) + std::string(64, 'x'), "wanted at most 1048576");
  expect_refused(header(3, 0, 1) + raw(std::uint64_t{1000}) + std::string(64, 'x'), "takes 1000 bytes, 64 are left");
  expect_refused(header(3, 0, 1) + raw(std::uint64_t{0}) + u32_value(1) + std::string(64, 'x'), "a key is empty");
  expect_refused(small_llama().key("k", raw(8U) + raw(most)).bytes(), "wanted at most 1048576");
  expect_refused(small_llama().key("k", raw(8U) + raw((std::uint64_t{1} << 20) + 1) + std::string(2 << 20, 'x')).bytes(),
                 "wanted at most 1048576");
}

TEST(GgufBad, the_metadata_have_a_budget) {
  GgufBuilder file = small_llama();
  const std::string megabyte = text_value(std::string(1 << 20, 'x'));
  for (int i = 0; i < 65; ++i) file.key("k" + std::to_string(i), megabyte);
  expect_refused(file.bytes(), "the metadata are longer than 67108864 bytes");
}

TEST(GgufBad, value_types_and_arrays_are_checked) {
  expect_refused(small_llama().key("k", raw(13U) + raw(0U)).bytes(), "the value type of k is 13, wanted 0 to 12");
  expect_refused(small_llama().key("k", raw(0xffffffffU) + raw(0U)).bytes(), "wanted 0 to 12");
  expect_refused(small_llama().key("k", array_value(GgufType::array, 1, raw(4U) + raw(std::uint64_t{1}) + raw(1U))).bytes(),
                 "an array of arrays");
  expect_refused(small_llama().key("k", array_value(GgufType::f64, huge, raw(1.0))).bytes(), "k is 9223372036854775808");
  expect_refused(small_llama().key("k", array_value(GgufType::u64, (std::uint64_t{1} << 61) + 1, raw(1.0))).bytes(),
                 "k is 2305843009213693953");
  expect_refused(small_llama().key("k", array_value(GgufType::string, std::uint64_t{1} << 40, raw(std::uint64_t{0}))).bytes(),
                 "k is 1099511627776");
  expect_refused(small_llama().key("k", array_value(static_cast<GgufType>(77), 1, raw(1.0))).bytes(), "wanted 0 to 12");
  expect_refused(small_llama().key("k", raw(7U) + raw(std::uint8_t{2})).bytes(), "wanted 0 or 1 for a bool");
  expect_refused(small_llama().key("llama.block_count", u32_value(3)).bytes(), "key llama.block_count is given twice");
}

TEST(GgufBad, alignment_is_a_power_of_two) {
  for (const std::uint32_t alignment : {0U, 3U, 24U, 0xffffffffU}) {
    expect_refused(small_llama().key("general.alignment", u32_value(alignment)).bytes(), "wanted a power of two");
  }
  expect_refused(small_llama().key("general.alignment", text_value("32")).bytes(), "wanted a power of two");
  expect_refused(small_llama().key("general.alignment", f32_value(32)).bytes(), "wanted a power of two");
  EXPECT_EQ(message_of(small_llama().key("general.alignment", u32_value(0x80000000U)).bytes()), "");
}

TEST(GgufBad, tensors_stay_inside_the_file_and_apart) {
  expect_refused(small_llama().info("w", {8}, 0, 0).bytes(), "tensor w lies at bytes");
  expect_refused(small_llama().info("w", {8}, 0, 16).bytes(), "wanted a multiple of the alignment, 32");
  expect_refused(small_llama().info("w", {8}, 0, most - 31).bytes(), "does not fit 64 bits");
  expect_refused(small_llama().tensor("a", std::vector<float>(16, 1)).info("b", {8}, 0, 32).bytes(), "overlaps tensor a");
  expect_refused(small_llama().tensor("a", std::vector<float>(8, 1)).info("a", {1}, 0, 0).bytes(), "tensor a is given twice");
  expect_refused(small_llama().info("w", {1, 1, 1, 1, 1}, 0, 0).bytes(), "has 5 axes, wanted at most 4");
  expect_refused(small_llama().info("w", {8}, 4, 0).bytes(), "the type of tensor w is 4");
  expect_refused(small_llama().info("w", {8}, 4096, 0).bytes(), "the type of tensor w is 4096");
  expect_refused(small_llama().info("w", {33}, 2, 0).bytes(), "wanted a multiple of 32");
}

TEST(GgufBad, rope_tensors_are_checked) {
  const std::vector<float> eight(8, 1.5F);
  EXPECT_EQ(message_of(small_llama().tensor("rope_freqs.weight", eight).bytes()), "");
  expect_refused(small_llama().tensor("rope_freqs.weight", std::vector<float>(7, 1)).bytes(), "has 7 entries, wanted 8");
  expect_refused(small_llama().tensor("rope_freqs.weight", std::vector<float>(3000, 1)).bytes(), "wanted at most 2048");
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values = eight;
    values[5] = bad;
    expect_refused(small_llama().tensor("rope_freqs.weight", values).bytes(), "wanted a finite number above 0");
  }
  expect_refused(small_llama().tensor("rope_factors_long.weight", eight).bytes(), "rope_factors_short.weight is missing");
  expect_refused(small_llama().info("rope_freqs.weight", {32}, 8, 0).bytes() + std::string(64, '\0'), "wanted float32 or float16");
}

TEST(GgufBad, counts_and_widths_are_checked) {
  const auto llama = [](std::string_view key, const std::string& value) { return GgufBuilder("llama").key(key, value); };
  expect_refused(llama("llama.block_count", u32_value(0)).bytes(), "llama.block_count is 0, wanted 1 to 1024");
  expect_refused(llama("llama.block_count", u32_value(0x7fffffff)).bytes(), "wanted 1 to 1024");
  expect_refused(llama("llama.block_count", raw(5U) + raw(-1)).bytes(), "llama.block_count is -1");
  expect_refused(llama("llama.block_count", raw(10U) + raw(most)).bytes(), "wanted 0 to 2^53");
  expect_refused(llama("llama.block_count", u32_value(1)).key("llama.embedding_length", u32_value(64)).bytes(), "head_count is missing");
  expect_refused(llama("llama.block_count", u32_value(1)).key("llama.attention.key_length", u32_value(7)).bytes(), "wanted an even number");
  expect_refused(small_llama().key("llama.rope.dimension_count", u32_value(32)).bytes(), "wanted 2 to 16");
  expect_refused(small_llama().key("llama.rope.freq_base", f32_value(0)).bytes(), "base is 0");
  expect_refused(small_llama().key("llama.rope.freq_base", f32_value(std::numeric_limits<float>::quiet_NaN())).bytes(),
                 "wanted a finite number");
  expect_refused(small_llama().key("llama.rope.scaling.factor", f32_value(-2)).bytes(), "wanted a number above 0");
  expect_refused(GgufBuilder("qwen2vl").key("qwen2vl.block_count", u32_value(1)).key("qwen2vl.attention.key_length", u32_value(16)).bytes(),
                 "rope.dimension_sections is missing");
}

// ---- The published incidents ----

TEST(GgufIncidents, CVE_2024_21802_a_tensor_with_more_axes_than_the_reader_has_room_for) {
  expect_refused(small_llama().info("w", std::vector<std::uint64_t>(64, 1), 0, 0).bytes(), "has 64 axes, wanted at most 4");
}

TEST(GgufIncidents, CVE_2024_21825_an_array_whose_size_in_bytes_wraps) {
  // 2^61 elements of 8 bytes: malloc(0), then writes.
  expect_refused(small_llama().key("k", array_value(GgufType::u64, std::uint64_t{1} << 61, std::string(64, '\0'))).bytes(),
                 "what the remaining");
}

TEST(GgufIncidents, CVE_2024_21836_a_tensor_count_whose_infos_wrap) { expect_refused(header(3, most / 24 + 1, 0), "tensor count"); }

TEST(GgufIncidents, CVE_2024_23496_a_string_of_length_minus_one) {
  // length + 1 was reserved: nothing.
  expect_refused(small_llama().key("k", raw(8U) + raw(most) + std::string(64, 'x')).bytes(), "wanted at most 1048576");
}

TEST(GgufIncidents, CVE_2024_23605_a_key_count_whose_table_wraps) {
  expect_refused(header(3, 0, most / 48 + 1) + std::string(256, '\0'), "key count");
}

TEST(GgufIncidents, CVE_2024_25664_to_25668_counts_and_lengths_nobody_checked) {
  for (const std::uint64_t count : {huge, huge - 1, huge + 1, most, most - 7, std::uint64_t{1} << 32, std::uint64_t{1} << 48}) {
    SCOPED_TRACE(count);
    expect_refused(header(3, 0, count), "key count");                                                   // 25664
    expect_refused(header(3, 0, 1) + raw(count) + std::string(32, 'x'), "wanted at most 1048576");      // 25665
    expect_refused(header(3, count, 0), "tensor count");                                                // 25666
    expect_refused(small_llama().key("k", array_value(GgufType::f32, count, "")).bytes(), "k is ");     // 25667
    expect_refused(small_llama().key("k", array_value(GgufType::string, count, "")).bytes(), "k is ");  // 25668
  }
}

TEST(GgufIncidents, CVE_2025_53630_sizes_of_tensors_that_wrap_when_added) {
  // Each is within 64 bits; padded and added up they were not.
  GgufBuilder file = small_llama();
  file.info("a", {std::uint64_t{1} << 61}, 0, 0).info("b", {std::uint64_t{1} << 61}, 0, huge);
  expect_refused(file.bytes(), "tensor a lies at bytes");
  expect_refused(small_llama().info("a", {(std::uint64_t{1} << 62) - 8}, 0, 0).bytes(), "does not fit 64 bits");
}

TEST(GgufIncidents, CVE_2026_27940_the_same_once_more_through_the_number_of_tensors_or_their_type) {
  // The memory for the tensors themselves, some 368 bytes each, wrapped where the sum of their data no longer did.
  for (const std::uint64_t bytes : {std::uint64_t{368}, std::uint64_t{336}, std::uint64_t{400}}) {
    expect_refused(header(3, most / bytes, 0) + std::string(256, '\0'), "tensor count");
  }
  expect_refused(small_llama().info("a", {std::uint64_t{1} << 60, 4}, 0, 0).bytes(), "does not fit 64 bits");
  expect_refused(small_llama().info("a", {std::uint64_t{1} << 59, 1, 8}, 28, 0).bytes(), "does not fit 64 bits");
}

TEST(GgufIncidents, CVE_2026_33298_axes_whose_product_wraps_to_little) {
  expect_refused(small_llama().info("a", {std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0).bytes(), "does not fit 64 bits");
  expect_refused(small_llama().info("a", {std::uint64_t{1} << 32, std::uint64_t{1} << 31, 2, 1}, 24, 0).bytes(), "does not fit 64 bits");
  expect_refused(small_llama().info("a", {most}, 24, 0).bytes(), "wanted at most 2^62");
}

TEST(GgufIncidents, CVE_2026_7482_a_tensor_that_claims_more_than_the_file_has) {
  // Its bytes were copied out of what lay behind the file.
  GgufBuilder file = small_llama();
  file.tensor("a", std::vector<float>(8, 1)).info("rope_freqs.weight", {std::uint64_t{1} << 20}, 1, 32);
  expect_refused(file.bytes(), "tensor rope_freqs.weight lies at bytes");
}

}  // namespace
}  // namespace phasor::test
