// SPDX-License-Identifier: Apache-2.0
// Fuzzing spec_from_json: whatever the text, it answers; what it reads is written, reads again as the same and has the same text then. So
// is its binary form. The same bytes as integers and as a binary form: they are refused, or mean what they say.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "../tests/spec_bits.hpp"
#include "../tests/valid_utf8.hpp"
#include "phasor/serialised.hpp"

namespace {

using namespace phasor;

[[noreturn]] void found(const char* what) {
  std::fprintf(stderr, "spec_json: %s\n", what);
  std::abort();
}

void check_message(const Status& status) {
  if (status.message().empty()) found("an error without a message");
  if (!test::is_message(status.message())) found("a message that is no UTF-8");
}

std::string written(const AnySpec& spec) {
  auto text = std::visit([](const auto& one) { return spec_to_json(one); }, spec);
  if (!text) found("what was read is not written");
  return *std::move(text);
}

void read(std::string_view text) {
  const auto spec = spec_from_json(text);
  if (!spec) return check_message(spec.status());
  const std::string once = written(*spec);
  const auto again = spec_from_json(once);
  if (!again) found("what was written is not read");
  if (test::bits(*again) != test::bits(*spec)) found("another spec came back");
  if (written(*again) != once) found("another text of the same spec");
  const auto binary = cbor_of_json(once);
  if (!binary) found("a spec without a binary form");
  const auto unpacked = spec_from_cbor(*binary);
  if (!unpacked || written(*unpacked) != once) found("another spec came back from its binary form");
}

void read_binary(const std::uint8_t* data, std::size_t size) {
  const auto spec = spec_from_cbor({reinterpret_cast<const std::byte*>(data), size});
  if (!spec) return check_message(spec.status());
  if (!spec_from_json(written(*spec))) found("what was read from the binary form is not read as text");
}

void read_words(const std::uint8_t* data, std::size_t size) {
  std::vector<std::int64_t> words(size / sizeof(std::int64_t));
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(std::int64_t));
  const auto text = json_of_integers(words);
  if (!text) return check_message(text.status());
  const auto back = integers_of_json(*text);
  if (!back || *back != words) found("other words of the same text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read({reinterpret_cast<const char*>(data), size});
  read_words(data, size);
  read_binary(data, size);
  return 0;
}
