// SPDX-License-Identifier: Apache-2.0
// Recorded models: every config that transformers wrote parses, and its frequencies, widths, amplitudes and axes are what its modules
// compute.
#include <cmath>
#include <limits>
#include <map>

#include "phasor/rotary.hpp"
#include "spec/hf/hf_golden.hpp"

namespace phasor::test {
namespace {

using spec::Json;

double ulps(double ours, double theirs) {
  const auto nearest = static_cast<float>(theirs);
  const double ulp = std::nextafter(std::fabs(nearest), std::numeric_limits<float>::infinity()) - std::fabs(nearest);
  return std::fabs(ours - theirs) / ulp;
}

/// What PyTorch's float32 costs at a frequency w, in ulps. The exponent 2i/R is rounded to float32 before the power: |ln w| ulps at most.
/// Power, quotients and the list of factors: 4. A ramp (YaRN, Llama 3) subtracts near 1 and the slowest pairs are `factor` times smaller
/// than what is subtracted: 3 factor.
double bound(double frequency, const Scaling& scaling) {
  double ramp = 0;
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) ramp = 3 * yarn->factor;
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&scaling)) ramp = 3 * llama3->factor;
  return std::fabs(std::log(frequency)) + 4 + ramp;
}

void compare(const RotarySpec& with_axes, const Json& inv_freq, double amplitude, const std::string& what) {
  RotarySpec spec = with_axes;
  spec.axes = {};  // a shared ladder: which axis turns a pair does not change its frequency
  const auto rotary = Rotary::make(spec);
  ASSERT_EQ(rotary.status().message(), "") << what;
  ASSERT_EQ(rotary->rotary_width(), 2 * static_cast<std::int64_t>(inv_freq.items.size())) << what;
  for (std::size_t i = 0; i < inv_freq.items.size(); ++i) {
    const double ours = rotary->frequencies()[i];
    const double theirs = inv_freq.items[i].number;
    if (theirs == 0) {
      EXPECT_EQ(ours, 0) << what << " pair " << i;
    } else {
      EXPECT_LE(ulps(ours, theirs), bound(ours, spec.scaling)) << what << " pair " << i << ": " << ours << " " << theirs;
    }
  }
  EXPECT_LE(ulps(rotary->amplitude(), amplitude), 1) << what;
}

/// The label of the recorded table that a layer uses.
const Json* table_of(const Json& tables, const std::string& type) {
  if (const Json* all = tables.find("")) return all;
  if (const Json* own = tables.find(type)) return own;
  return tables.find(type == "sliding_attention" ? "main" : "compress");
}

TEST(HfGolden, every_recorded_model_has_the_frequencies_width_and_amplitude_of_its_module) {
  int compared = 0;
  for (const std::string& name : test::golden_names()) {
    const Json record = test::golden(name + ".json");
    const Json* tables = record.find("tables");
    if (tables == nullptr) continue;
    const ModelPositions model = test::parsed_golden(name);
    std::map<std::string, bool> seen;
    for (const LayerPositions& layer : model.layers) {
      if (!layer.rotary || seen[layer.type]) continue;
      seen[layer.type] = true;
      const Json* table = table_of(*tables, layer.type);
      ASSERT_NE(table, nullptr) << name << " " << layer.type;
      compare(*layer.rotary, *table->find("inv_freq"), table->find("amplitude")->number, name + " " + layer.type);
      ++compared;
    }
    EXPECT_FALSE(seen.empty()) << name << " has no rotary layer";
  }
  EXPECT_GE(compared, 100);
}

TEST(HfGolden, random_parameters_of_every_rope_type_give_the_frequencies_of_transformers) {
  const Json record = test::golden("random.json");
  const Json* cases = record.find("cases");
  ASSERT_NE(cases, nullptr);
  EXPECT_GE(cases->items.size(), 200U);
  for (const Json& one : cases->items) {
    const std::string text = test::text_of(*one.find("config"));
    const ModelPositions model = test::parsed(text, *one.find("length")->integer);
    ASSERT_EQ(model.layers.size(), 1U);
    compare(*model.layers[0].rotary, *one.find("inv_freq"), one.find("amplitude")->number, text);
  }
}

// ---- Axes ----

/// Which axis turns each pair, by the words of AxisOrder.
std::vector<std::int64_t> axes_of(const Axes& axes, std::int64_t pairs) {
  const auto count = static_cast<std::int64_t>(axes.sections.size());
  std::vector<std::int64_t> owner;
  for (std::int64_t k = 0; k < pairs; ++k) {
    std::int64_t axis = 0;
    if (axes.order == AxisOrder::chunked) {
      for (std::int64_t end = axes.sections[0]; k >= end; end += axes.sections[static_cast<std::size_t>(axis)]) ++axis;
    } else if (axes.order == AxisOrder::interleaved) {
      axis = k < count * axes.sections[static_cast<std::size_t>(k % count)] ? k % count : 0;
    } else if (axes.order == AxisOrder::alternating) {
      axis = k < axes.sections[1] + axes.sections[2] ? 1 + k % 2 : 0;
    }
    owner.push_back(axis);
  }
  return owner;
}

std::vector<std::int64_t> integers(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& item : list.items) values.push_back(*item.integer);
  return values;
}

TEST(HfGolden, every_recorded_model_of_several_axes_turns_each_pair_by_the_axis_of_its_module) {
  int compared = 0;
  for (const std::string& name : test::golden_names()) {
    const Json record = test::golden(name + ".json");
    const Json* owner = record.find("axis_of_pair");
    if (owner == nullptr) continue;
    const ModelPositions model = test::parsed_golden(name);
    for (const LayerPositions& layer : model.layers) {
      if (!layer.rotary) continue;
      EXPECT_EQ(axes_of(layer.rotary->axes, layer.rotary->rotary_width / 2), integers(*owner)) << name;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

/// base^(-j / section) for the j-th pair of an axis with a ladder of its own, w_(j n + a) where one ladder is dealt out.
double ladder_frequency(const RotarySpec& spec, std::int64_t axis, std::int64_t j) {
  const auto axes = static_cast<std::int64_t>(spec.axes.sections.size());
  const std::int64_t section = spec.axes.sections[static_cast<std::size_t>(axis)];
  const double own = static_cast<double>(j) / static_cast<double>(section);
  const double dealt = static_cast<double>(j * axes + axis) / (static_cast<double>(spec.rotary_width) / 2);
  return std::pow(spec.base, -(spec.axes.ladder == AxisLadder::dealt ? dealt : own));
}

TEST(HfGolden, recorded_image_encoders_turn_each_pair_by_the_axis_and_frequency_of_their_modules) {
  int compared = 0;
  for (const std::string& name : test::golden_names()) {
    const Json record = test::golden(name + ".json");
    const Json* patches = record.find("patches");
    if (patches == nullptr) continue;
    // Towers have names of their own in the table; as a file of its own a tower is found by its model_type.
    std::string text = test::text_of(*record.find("config"));
    if (name != "vision-pixtral" && name != "vision-sam2_video") {
      text = "{\"model_type\":\"" + name.substr(7) + "\",\"text_config\":{\"model_type\":\"llama\"},\"vision_config\":" + text + "}";
    }
    const ModelPositions model = test::parsed(text);
    const auto& layers = model.towers.empty() ? model.layers : model.towers[0].layers;
    ASSERT_FALSE(layers.empty()) << name;
    const RotarySpec& spec = *layers[0].rotary;
    const std::vector<std::int64_t> owner = integers(*patches->find("axis_of_pair"));
    ASSERT_EQ(axes_of(spec.axes, spec.rotary_width / 2), owner) << name;
    std::vector<std::int64_t> placed(spec.axes.sections.size(), 0);
    for (std::size_t i = 0; i < owner.size(); ++i) {
      const double ours = ladder_frequency(spec, owner[i], placed[static_cast<std::size_t>(owner[i])]++);
      const double theirs = patches->find("frequency_of_pair")->items[i].number;
      // The arc sine of a float32 sine that was recorded costs 4 more.
      EXPECT_LE(ulps(ours, theirs), bound(ours, Unscaled{}) + 4) << name << " pair " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

}  // namespace
}  // namespace phasor::test
