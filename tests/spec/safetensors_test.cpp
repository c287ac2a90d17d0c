// SPDX-License-Identifier: Apache-2.0
// safetensors headers: files of the safetensors package, and everything that is not one.
#include "spec/files/safetensors.hpp"

#include <gtest/gtest.h>

#include "gguf/gguf_bytes.hpp"
#include "golden_file.hpp"
#include "safetensors_bytes.hpp"

namespace phasor::test {
namespace {

std::string message_of(const std::string& bytes) {
  try {
    spec::read_safetensors(as_bytes(bytes));
    return "";
  } catch (const spec::ReadError& error) {
    return error.status.message();
  }
}

void expect_refused(const std::string& bytes, std::string_view reason) {
  const std::string message = message_of(bytes);
  EXPECT_NE(message.find(reason), std::string::npos) << (message.empty() ? "accepted" : message);
}

/// One tensor with these fields, and eight bytes of data.
std::string one(std::string_view fields) { return safetensors_bytes("{\"a\":{" + std::string(fields) + "}}", "12345678"); }

TEST(Safetensors, a_file_of_the_package_is_read) {
  const std::string bytes = file_bytes(golden_file("weights/grouped-half.safetensors"));
  const spec::SafetensorsFile file = spec::read_safetensors(as_bytes(bytes));
  EXPECT_EQ(file.tensors.size(), 11U);
  const spec::SafetensorsTensor& query = file.tensors.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(query.dtype, "F32");
  EXPECT_EQ(query.shape, (std::vector<std::uint64_t>{32, 6}));
  EXPECT_EQ(query.end - query.begin, 32U * 6 * 4);
}

TEST(Safetensors, truncation_at_every_byte_is_an_error) {
  const std::string whole = file_bytes(golden_file("weights/partial-half.safetensors"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(message_of(std::string(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))), "") << length;
  }
  expect_refused(whole + "x", "the file at");
}

TEST(Safetensors, the_length_of_the_header_is_checked) {
  expect_refused("", "header length takes 8 bytes, 0 are left");
  expect_refused(raw(std::uint64_t{10}) + "{}", "header takes 10 bytes, 2 are left");
  expect_refused(raw(std::uint64_t{100'000'001}) + "{}", "wanted at most 100000000");
  expect_refused(raw(~std::uint64_t{0}) + "{}", "wanted at most 100000000");
  expect_refused(safetensors_bytes(""), "does not begin with {");
  expect_refused(safetensors_bytes(" {}"), "does not begin with {");
}

TEST(Safetensors, an_empty_header_and_trailing_spaces_are_fine) {
  EXPECT_EQ(message_of(safetensors_bytes("{}")), "");
  EXPECT_EQ(message_of(safetensors_bytes("{}      ")), "");
  EXPECT_EQ(message_of(safetensors_bytes(R"({"__metadata__":{"format":"pt"}})")), "");
  EXPECT_EQ(message_of(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})")), "");
  EXPECT_EQ(message_of(one(R"("dtype":"F64","shape":[],"data_offsets":[0,8])")), "");
  EXPECT_EQ(message_of(one(R"("dtype":"F4","shape":[16],"data_offsets":[0,8])")), "");
}

TEST(Safetensors, fields_are_checked) {
  expect_refused(one(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "dtype of a is F31");
  expect_refused(one(R"("dtype":32,"shape":[2],"data_offsets":[0,8])"), "a dtype is 32");
  expect_refused(one(R"("dtype":"F32","shape":[2])"), "data_offsets of a");
  expect_refused(one(R"("dtype":"F32","data_offsets":[0,8])"), "a has no shape");
  expect_refused(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "a has 8 bytes of data, wanted 96 bits");
  expect_refused(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "a negative number");
  expect_refused(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "is 2.0");
  expect_refused(one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "is 2");
  expect_refused(one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "is a list");
  expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "wanted two in order");
  expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), "too long");
  expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), "x of a is not known");
  expect_refused(one(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), "shape of a is given twice");
  expect_refused(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "does not fit 64 bits");
  expect_refused(one(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"), "is 18446744073709551616");
  expect_refused(one(R"("dtype":"F32","shape":[1e999],"data_offsets":[0,8])"), "byte");
}

TEST(Safetensors, names_and_places_are_checked) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_refused(safetensors_bytes("{" + a + "," + a + "}", "1234"), "tensor a is given twice");
  expect_refused(safetensors_bytes("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", "123456"),
                 "where the one before ends");
  expect_refused(safetensors_bytes("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})", "123456789012"),
                 "b begins at byte");
  expect_refused(safetensors_bytes("{" + a + "}", "12"), "a ends at byte 4 of the data, which have 2");
  expect_refused(safetensors_bytes("{" + a + "}", "123456"), "the file at");
  expect_refused(
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[18446744073709551612],"data_offsets":[4,18446744073709551615]}})", "1234"),
      "fit 64 bits");
  expect_refused(safetensors_bytes(R"({"__metadata__":{"a":1}})"), "is 1");
  expect_refused(safetensors_bytes(R"({"__metadata__":{"a":"1","a":"2"}})"), "given twice");
}

TEST(Safetensors, what_is_no_json_is_an_error) {
  expect_refused(safetensors_bytes("{\"a\":"), "byte");
  expect_refused(safetensors_bytes("{} {}"), "byte");
  expect_refused(safetensors_bytes("{\"\xff\":{}}"), "byte");
  expect_refused(safetensors_bytes("{\"a\":NaN}"), "byte");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  expect_refused(safetensors_bytes(deep), "is a list");
}

}  // namespace
}  // namespace phasor::test
