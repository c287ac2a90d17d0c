// SPDX-License-Identifier: Apache-2.0
// Additive encodings and learned tables against what Hugging Face's modules and PyTorch gave (tools/record/record_additive.py), in float64.
#include <functional>
#include <optional>

#include "additive_reference.hpp"
#include "phasor/learned.hpp"
#include "recorded.hpp"

namespace phasor::test {
namespace {

/// The peers' float64 frequency and angle are off by some units of 2^-53, times an angle of up to 1000.
constexpr double kPeerError = 2e-12;

const Record& recorded(const std::string& name) {
  static const std::vector<Record> records = read_records("additive.txt");
  for (const Record& record : records) {
    if (record.title[0] == name) return record;
  }
  ADD_FAILURE() << name;
  return records[0];
}

std::vector<double> values_of(const Record& record) {
  std::vector<double> values;
  for (const std::string& word : record.lists.at("values")) values.push_back(std::stod(word));
  return values;
}

/// The script's `numbers`.
std::vector<double> numbers(std::int64_t count) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(static_cast<double>((i * 37 + 11) % 61 - 30) / 8);
  return list;
}

void expect_near(const std::vector<double>& is, const std::vector<double>& wanted, double error) {
  ASSERT_EQ(is.size(), wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], wanted[i], error) << i;
}

/// out (B, T, 1, D), B T D as recorded.
void expect_recorded(const std::string& name, const SinusoidalSpec& spec, const Positions& at, std::int64_t batch = 1) {
  SCOPED_TRACE(name);
  const std::vector<double> wanted = values_of(recorded(name));
  std::vector<double> is(wanted.size());
  const auto tokens = static_cast<std::int64_t>(is.size()) / spec.width / batch;
  const Status status = Sinusoidal::make(spec)->fill(view(is.data(), {batch, tokens, 1, spec.width}), at);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_near(is, wanted, kPeerError);
}

TEST(AdditiveGolden, whisper_and_roformer) {
  expect_recorded("whisper", {.width = 12, .ladder = GeometricLadder{.shift = 1}, .order = SinusoidOrder::sin_cos}, positions_from(0));
  expect_recorded("roformer", {.width = 12, .order = SinusoidOrder::sin_cos}, positions_from(0));
  expect_recorded("roformer_odd", {.width = 9, .order = SinusoidOrder::sin_cos, .odd = OddChannel::unpaired}, positions_from(0));
}

TEST(AdditiveGolden, m2m100_with_padding_before_and_behind) {
  const std::vector<std::int64_t> ids = {5, 9, 7, 1, 1, 1, 8, 3, 4, 6};
  std::vector<std::int64_t> at(10);
  ASSERT_TRUE(fill_from_mask(positions(at.data(), 2, 5), {.values = ids, .pad = 1}, roberta_rule(1)).ok());
  expect_recorded("m2m100", {.width = 13, .ladder = GeometricLadder{.shift = 1}, .order = SinusoidOrder::sin_cos, .zero_position = 1},
                  positions(at.data(), 2, 5), 2);
}

TEST(AdditiveGolden, mae_has_the_column_before_the_row) {
  const GridAxis axes[] = {GridAxis::column, GridAxis::row};
  const ImageGrid grid = {.rows = 3, .columns = 3};
  std::vector<std::int64_t> at(18);
  ASSERT_TRUE(fill_from_grids(positions(at.data(), 2, 1, 9), std::span(&grid, 1), {.axes = axes}).ok());
  expect_recorded("mae", {.width = 16, .order = SinusoidOrder::sin_cos, .axis_widths = {8, 8}}, positions(at.data(), 2, 1, 9));
}

TEST(AdditiveGolden, detr_has_the_row_before_the_column_and_counts_what_is_not_padding) {
  const std::vector<std::uint8_t> mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0};
  std::vector<std::int32_t> whole(48);
  ASSERT_TRUE(fill_detr(positions(whole.data(), 2, 2, 12), {.rows = 3, .columns = 4, .mask = mask}).ok());
  expect_recorded("detr", {.width = 20, .axis_widths = {10, 10}}, positions(whole.data(), 2, 2, 12), 2);
  std::vector<double> share(48);
  ASSERT_TRUE(fill_detr(positions(share.data(), 2, 2, 12), {.rows = 3, .columns = 4, .mask = mask, .normalised = true}).ok());
  expect_recorded("detr_normalised", {.width = 20, .axis_widths = {10, 10}, .unit = FrequencyUnit::turns},
                  positions(share.data(), 2, 2, 12), 2);
}

TEST(AdditiveGolden, timesteps_of_diffusion) {
  const std::vector<double> first = {0, 0.25, 999, 17.5};
  const std::vector<double> second = {0, 0.25, 1, 0.7};
  expect_recorded("timestep_cos_first", {.width = 14, .order = SinusoidOrder::cos_sin}, positions(first.data(), 4));
  expect_recorded("timestep_scaled",
                  {.width = 14, .ladder = GeometricLadder{.shift = 1}, .order = SinusoidOrder::sin_cos, .position_scale = 1000},
                  positions(second.data(), 4));
}

TEST(AdditiveGolden, detr_learned_has_the_column_before_the_row) {
  const std::vector<double> columns = numbers(150);
  std::vector<double> rows = columns;
  for (double& x : rows) x *= 2;
  const GridAxis axes[] = {GridAxis::column, GridAxis::row};
  const ImageGrid grid = {.rows = 3, .columns = 4};
  std::vector<std::int64_t> at(24);
  ASSERT_TRUE(fill_from_grids(positions(at.data(), 2, 1, 12), std::span(&grid, 1), {.axes = axes}).ok());
  std::vector<double> x(72, 0);
  const ConstTensorView tables[] = {view(columns.data(), {1, 50, 1, 3}), view(rows.data(), {1, 50, 1, 3})};
  ASSERT_TRUE(lookup_add(view(x.data(), {1, 12, 1, 6}), tables, positions(at.data(), 2, 1, 12)).ok());
  expect_near(x, values_of(recorded("detr_learned")), 0);
}

TEST(AdditiveGolden, the_gradient_of_a_table_is_that_of_pytorch) {
  const std::vector<std::int32_t> at = {4, 0, 4, 1, 4, 0};
  const std::vector<double> gradient = numbers(18);
  const auto scattered = [&](std::optional<std::int64_t> padding) {
    std::vector<double> table(18, 0);
    EXPECT_TRUE(scatter_gradient(view(table.data(), {1, 6, 1, 3}), view(gradient.data(), {2, 3, 1, 3}), positions(at.data(), 2, 3),
                                 {.padding_row = padding})
                    .ok());
    return table;
  };
  expect_near(scattered(std::nullopt), values_of(recorded("embedding_gradient")), 0);
  expect_near(scattered(4), values_of(recorded("embedding_gradient_padded")), 0);
}

TEST(AdditiveGolden, resized_tables_are_those_of_pytorch) {
  int cases = 0;
  for (const Record& record : read_records("additive.txt")) {
    if (record.title[0] != "resample") continue;
    ++cases;
    std::vector<std::int64_t> n;
    for (std::size_t i = 2; i < 8; ++i) n.push_back(std::stoll(record.title[i]));
    SCOPED_TRACE(record.title[1] + " " + std::to_string(cases));
    const Resampling resampling = {.kernel = record.title[1] == "linear" ? Resampling::Kernel::linear : Resampling::Kernel::cubic,
                                   .align_corners = n[0] == 1};
    const std::vector<double> table = numbers(n[1] * n[2] * n[3]);
    std::vector<double> out(static_cast<std::size_t>(n[4] * n[5] * n[3]));
    const Status status = resample_table(view(out.data(), {n[4], n[5], 1, n[3]}), view(table.data(), {n[1], n[2], 1, n[3]}), resampling);
    ASSERT_TRUE(status.ok()) << status.message();
    expect_near(out, values_of(record), 1e-14);
  }
  EXPECT_EQ(cases, 24);
}

}  // namespace
}  // namespace phasor::test
