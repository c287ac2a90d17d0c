// SPDX-License-Identifier: Apache-2.0
// Rotation by given tables in the numerics of ggml: bit for bit what it gave when it was recorded, in float32 and float16, both pairings.
#include "ops/rotary/rotary_call.hpp"
#include "recorded.hpp"

namespace phasor::test {
namespace {

using ProfileGgml = EveryTarget;

template <class T>
void check_rotation(const Record& record, const std::string& suffix) {
  const std::vector<float> cos = record.floats("cos");
  const std::vector<float> sin = record.floats("sin");
  const auto elements = [&](const std::string& name) {
    std::vector<T> values;
    for (const std::uint32_t b : record.bits(name + suffix)) values.push_back(Element<T>::from_bits(b));
    return values;
  };
  std::vector<T> x = elements("in");
  const std::int64_t pairs = std::stoll(record.title[2]);
  const auto tokens = static_cast<std::int64_t>(cos.size()) / pairs;
  TableLayout layout;
  layout.pairing = record.title[1] == "half" ? Pairing::half : Pairing::interleaved;
  layout.numerics = Numerics::ggml;
  const Extents rows = {1, tokens, 1, pairs};
  const Status status = apply_rotary(view(x.data(), {1, tokens, 1, 2 * pairs}), view(cos.data(), rows), view(sin.data(), rows), layout);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_numbers(x, elements("out")));
}

TEST_F(ProfileGgml, given_its_tables_the_output_is_that_of_ggml_bit_for_bit) {
  int rotations = 0;
  const std::vector<Record> records = read_records("ggml_tables.txt");
  on_every_target([&] {
    for (const Record& record : records) {
      if (record.lists.count("in16") == 0) continue;
      SCOPED_TRACE(record.title[0]);
      check_rotation<Float16>(record, "16");
      check_rotation<float>(record, "32");
      rotations += 2;
    }
  });
  EXPECT_EQ(rotations, 4 * static_cast<int>(targets().size()));
}

}  // namespace
}  // namespace phasor::test
