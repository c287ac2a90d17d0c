// SPDX-License-Identifier: Apache-2.0
// The profiles' own frequencies and tables against those recorded from transformers and ggml.
#include "plan/profile/profile.hpp"

#include <tuple>
#include <utility>

#include "../profile_specs.hpp"
#include "../recorded.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "plan/rotary.hpp"

namespace phasor::test {
namespace {

using ProfileTables = EveryTarget;

struct Table {
  std::vector<float> cos;
  std::vector<float> sin;
};

Table table_of(const RotarySpec& spec, const std::vector<std::int64_t>& list) {
  const Rotary rotary = make_rotary(spec);
  const std::int64_t pairs = rotary.rotary_width() / 2;
  const auto tokens = static_cast<std::int64_t>(list.size());
  Table table = {std::vector<float>(list.size() * static_cast<std::size_t>(pairs)), {}};
  table.sin = table.cos;
  const Extents shape = {1, tokens, 1, pairs};
  const Status status = rotary.cos_sin(positions(list.data(), 1, tokens), view(table.cos.data(), shape), view(table.sin.data(), shape));
  EXPECT_TRUE(status.ok()) << status.message();
  return table;
}

std::int64_t most_ulps(const std::vector<float>& is, const std::vector<float>& wanted) {
  EXPECT_EQ(is.size(), wanted.size());
  std::int64_t most = 0;
  for (std::size_t i = 0; i < is.size(); ++i) most = std::max(most, ulps_apart(is[i], wanted[i]));
  return most;
}

std::size_t equal(const std::vector<float>& is, const std::vector<float>& wanted) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < is.size(); ++i) count += ulps_apart(is[i], wanted[i]) == 0 ? 1 : 0;
  return count;
}

// PyTorch's pow is at most one ulp off the nearest; what follows (reciprocals, YaRN's sum, Llama 3's ramp) carries it along.
constexpr std::int64_t frequency_ulps = 2;

TEST_F(ProfileTables, frequencies_are_those_of_transformers_but_for_its_power_function) {
  const auto specs = hf_specs();
  std::size_t same = 0;
  std::size_t all = 0;
  for (const Record& record : read_records("hf_tables.txt")) {
    SCOPED_TRACE(record.title[0]);
    RotarySpec spec = specs.at(record.title[0]);
    spec.numerics = Numerics::hf;
    const auto plan = plan::make_rotary_plan(spec);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::vector<float> wanted = record.floats("frequencies");
    EXPECT_LE(most_ulps(plan->profile->frequencies, wanted), frequency_ulps);
    EXPECT_EQ(reference::same_bytes<std::uint32_t>(plan->profile->amplitude), std::stoul(record.title[2], nullptr, 16));
    same += equal(plan->profile->frequencies, wanted);
    all += wanted.size();
  }
  EXPECT_GE(same * 2, all) << same << " of " << all << " are equal";
  RecordProperty("equal", static_cast<int>(same));
  RecordProperty("all", static_cast<int>(all));
}

/// The recorded frequencies and attention factor, so that only cos, sin and the product with the factor are compared.
RotarySpec with_recorded_frequencies(const Record& record) {
  const std::vector<float> frequencies = record.floats("frequencies");
  const auto amplitude = reference::same_bytes<float>(static_cast<std::uint32_t>(std::stoul(record.title[2], nullptr, 16)));
  GivenFrequencies given = {{frequencies.begin(), frequencies.end()}, amplitude};
  return spec_of_width(2 * static_cast<std::int64_t>(frequencies.size()), 10000, given);
}

/// Whether `wanted` is the amplitude times a number at most one ulp from `value`.
bool is_product_of_neighbour(float value, float amplitude, float wanted) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float v : {std::nextafter(value, -infinity), value, std::nextafter(value, infinity)}) {
    if (v * amplitude == wanted) return true;
  }
  return false;
}

TEST_F(ProfileTables, cosines_and_sines_are_within_one_ulp_of_those_of_transformers) {
  std::size_t same = 0;
  std::size_t all = 0;
  for (const Record& record : read_records("hf_tables.txt")) {
    SCOPED_TRACE(record.title[0]);
    RotarySpec spec = with_recorded_frequencies(record);
    spec.numerics = Numerics::hf;
    const auto amplitude = static_cast<float>(std::get<GivenFrequencies>(spec.scaling).amplitude);
    const Table table = table_of(spec, record.integers("positions"));
    std::get<GivenFrequencies>(spec.scaling).amplitude = 1;
    const Table plain = table_of(spec, record.integers("positions"));
    for (const auto& [name, own, values] : {std::tuple{"cos", plain.cos, table.cos}, {"sin", plain.sin, table.sin}}) {
      const std::vector<float> wanted = record.floats(name);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_TRUE(is_product_of_neighbour(own[i], amplitude, wanted[i])) << name << " " << i << ": " << own[i] << " " << wanted[i];
        ASSERT_EQ(values[i], own[i] * amplitude);
      }
      same += equal(values, wanted);
      all += wanted.size();
    }
  }
  EXPECT_GE(same * 10, all * 9) << same << " of " << all << " are equal";
  RecordProperty("equal", static_cast<int>(same));
  RecordProperty("all", static_cast<int>(all));
}

TEST_F(ProfileTables, exact_tables_are_not_those_of_transformers_far_out) {
  for (const Record& record : read_records("hf_tables.txt")) {
    if (record.title[0] != "default") continue;
    const Table table = table_of(hf_specs().at("default"), record.integers("positions"));
    EXPECT_GT(most_ulps(table.cos, record.floats("cos")), 1000);
  }
}

TEST_F(ProfileTables, tables_are_within_one_ulp_of_those_of_ggml) {
  const auto specs = ggml_specs();
  std::size_t same = 0;
  std::size_t all = 0;
  for (const Record& record : read_records("ggml_tables.txt")) {
    SCOPED_TRACE(record.title[0]);
    RotarySpec spec = specs.at(record.title[0]);
    spec.numerics = Numerics::ggml;
    const Table table = table_of(spec, record.integers("positions"));
    EXPECT_LE(most_ulps(table.cos, record.floats("cos")), 1);
    EXPECT_LE(most_ulps(table.sin, record.floats("sin")), 1);
    same += equal(table.cos, record.floats("cos")) + equal(table.sin, record.floats("sin"));
    all += 2 * table.cos.size();
  }
  EXPECT_GE(same * 10, all * 9) << same << " of " << all << " are equal";
  RecordProperty("equal", static_cast<int>(same));
  RecordProperty("all", static_cast<int>(all));
}

std::vector<std::pair<std::int64_t, std::int64_t>> rungs(AxisLadder ladder, const std::vector<std::uint8_t>& axis_of_pair) {
  RotarySpec spec = spec_of_width(2 * static_cast<std::int64_t>(axis_of_pair.size()), 10000, Unscaled{});
  spec.axes.ladder = ladder;
  std::vector<std::pair<std::int64_t, std::int64_t>> list;
  for (const plan::Rung& rung : plan::rungs_of(spec, axis_of_pair)) list.emplace_back(rung.index, rung.count);
  return list;
}

TEST(ProfileRungs, a_pair_is_on_a_ladder_of_all_pairs_of_its_axis_or_on_one_dealt_out) {
  using List = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(rungs(AxisLadder::shared, {0, 0, 1, 1}), (List{{0, 4}, {1, 4}, {2, 4}, {3, 4}}));
  EXPECT_EQ(rungs(AxisLadder::own, {0, 1, 1, 0, 1}), (List{{0, 2}, {0, 3}, {1, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(rungs(AxisLadder::dealt, {0, 0, 1, 1}), (List{{0, 4}, {2, 4}, {1, 4}, {3, 4}}));
}

TEST(ProfileRungs, per_channel_frequencies_take_the_numbers_of_their_channel) {
  plan::Profile profile;
  profile.frequencies = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(plan::per_channel(profile, 1).frequencies, (std::vector<float>{0, 2, 4, 0, 2, 4, 1, 3, 5, 1, 3, 5}));
  EXPECT_EQ(plan::per_channel(profile, 2).frequencies, (std::vector<float>{0, 2, 1, 3, 5, 4, 1, 0, 2, 4, 3, 5}));
}

TEST(ProfileRungs, positions_in_turns_are_multiplied_by_two_pi_in_hf_and_refused_elsewhere) {
  RotarySpec spec = spec_of_width(8, 100, Unscaled{});
  spec.unit = FrequencyUnit::turns;
  spec.numerics = Numerics::hf;
  const auto profile = plan::make_profile(spec, plan::rungs_of(spec, {}));
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(profile->position_factor, 6.2831853071795865F);
  spec.numerics = Numerics::vllm;
  EXPECT_EQ(plan::make_profile(spec, plan::rungs_of(spec, {})).status().message(),
            "RotarySpec: numerics is vllm and unit is turns, wanted radians");
}

TEST(ProfileRungs, scalings_of_ladders_that_are_not_shared_are_refused) {
  RotarySpec spec = spec_of_width(64, 10000, yarn(4, 4096));
  spec.axes.ladder = AxisLadder::own;
  spec.numerics = Numerics::hf;
  EXPECT_EQ(plan::make_profile(spec, plan::rungs_of(spec, {})).status().message(),
            "RotarySpec: numerics is hf and axes.ladder is not shared, wanted no scaling or linear scaling");
}

}  // namespace
}  // namespace phasor::test
