// SPDX-License-Identifier: Apache-2.0
// What a rotary encoding looks like at a position: matrices, wavelengths, errors of its angles.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "analysis/float32_angles.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

/// Beyond this a dense matrix is surely a mistake: 4096 x 4096 are 128 MiB already.
constexpr std::int64_t kWidestMatrix = 4096;

/// cos and sin of one position, amplitude included, one value per pair.
template <class T>
struct Row {
  std::vector<T> cos;
  std::vector<T> sin;
};

std::int64_t pairs_of_segment(const RotarySpec& spec) { return spec.rotary_width / 2 / spec.segments; }

/// A row of per-channel frequencies has each segment's values twice: once is enough.
template <class T>
void keep_once(std::vector<T>& values, const RotarySpec& spec) {
  const auto pairs = static_cast<std::size_t>(pairs_of_segment(spec));
  for (std::size_t i = 0; i < values.size() / 2; ++i) values[i] = values[i / pairs * 2 * pairs + i % pairs];
  values.resize(values.size() / 2);
}

/// Every axis is at `position`.
template <class T>
Result<Row<T>> row_at(const char* where, const Rotary& rotary, std::int64_t position) {
  if (Status status = analysis::check_heads(where, rotary); !status) return status;
  const bool per_channel = rotary.spec().lanes == Lanes::per_channel_frequencies;
  const std::int64_t width = rotary.rotary_width() / (per_channel ? 1 : 2);
  Row<T> row{std::vector<T>(static_cast<std::size_t>(width)), std::vector<T>(static_cast<std::size_t>(width))};
  const Extents shape{1, 1, 1, width};
  const Status status = rotary.cos_sin(positions_from(position), view(row.cos.data(), shape), view(row.sin.data(), shape));
  if (!status.ok()) return status;
  if (per_channel) {
    keep_once(row.cos, rotary.spec());
    keep_once(row.sin, rotary.spec());
  }
  return row;
}

/// The two channels of a pair, counted from the first rotated channel.
std::pair<std::int64_t, std::int64_t> channels_of(std::int64_t pair, const RotarySpec& spec, Pairing pairing) {
  if (pairing == Pairing::interleaved) return {2 * pair, 2 * pair + 1};
  const std::int64_t pairs = pairs_of_segment(spec);
  const std::int64_t x = pair / pairs * 2 * pairs + pair % pairs;
  return {x, x + pairs};
}

/// Whose values a lane of a pair turns by.
std::size_t turned_by(std::int64_t pair, std::int64_t lane, const RotarySpec& spec) {
  if (spec.lanes == Lanes::alike) return static_cast<std::size_t>(pair);
  const std::int64_t pairs = pairs_of_segment(spec);
  return static_cast<std::size_t>(pair / pairs * pairs + (2 * (pair % pairs) + lane) % pairs);
}

/// factor * [cos, -sin; sin, cos] for each pair. Adding zero turns -0 into 0, which is what people expect to read.
Matrix matrix_of(const Row<double>& row, double factor, const RotarySpec& spec, Pairing row_pairing) {
  const auto pairs = static_cast<std::int64_t>(row.cos.size());
  const double sense = spec.sense == Sense::clockwise ? -factor : factor;
  Matrix matrix{2 * pairs, 2 * pairs, std::vector<double>(static_cast<std::size_t>(4 * pairs * pairs))};
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const auto [x_row, y_row] = channels_of(pair, spec, row_pairing);
    const auto [x, y] = channels_of(pair, spec, spec.pairing);
    const auto at = [&](std::int64_t r, std::int64_t c) -> double& { return matrix.values[static_cast<std::size_t>(r * 2 * pairs + c)]; };
    const std::size_t first = turned_by(pair, 0, spec);
    const std::size_t second = turned_by(pair, 1, spec);
    at(x_row, x) = factor * row.cos[first] + 0.0;
    at(y_row, y) = factor * row.cos[second] + 0.0;
    at(y_row, x) = sense * row.sin[second] + 0.0;
    at(x_row, y) = -sense * row.sin[first] + 0.0;
  }
  return matrix;
}

Status check_width(const char* where, const Rotary& rotary) {
  if (rotary.rotary_width() <= kWidestMatrix) return {};
  return Status::invalid(std::string(where) + ": rotary_width is " + std::to_string(rotary.rotary_width()) + ", wanted at most " +
                         std::to_string(kWidestMatrix));
}

/// Whether key - query fits in 64 bits.
bool has_distance(std::int64_t query, std::int64_t key) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  return query >= 0 ? key >= kLeast + query : key <= kMost + query;
}

}  // namespace

Result<Matrix> rotation_matrix(const Rotary& rotary, std::int64_t position) {
  const Status status = check_width("rotation_matrix", rotary);
  if (!status.ok()) return status;
  return spec::without_exceptions([&]() -> Result<Matrix> {
    const auto row = row_at<double>("rotation_matrix", rotary, position);
    if (!row.ok()) return row.status();
    const RotarySpec& spec = rotary.spec();
    return matrix_of(*row, 1, spec, spec.output_pairing.value_or(spec.pairing));
  });
}

Result<Matrix> relative_matrix(const Rotary& rotary, std::int64_t query_position, std::int64_t key_position) {
  Status status = check_width("relative_matrix", rotary);
  if (status.ok()) status = analysis::check_relative("relative_matrix", rotary);
  if (!status.ok()) return status;
  if (!has_distance(query_position, key_position)) {
    return Status::invalid("relative_matrix: positions are " + std::to_string(query_position) + " and " + std::to_string(key_position) +
                           ", wanted a difference that fits in 64 bits");
  }
  return spec::without_exceptions([&]() -> Result<Matrix> {
    const auto row = row_at<double>("relative_matrix", rotary, key_position - query_position);
    if (!row.ok()) return row.status();
    return matrix_of(*row, rotary.amplitude(), rotary.spec(), rotary.spec().pairing);
  });
}

std::vector<double> wavelengths(const Rotary& rotary) {
  std::vector<double> lengths;
  lengths.reserve(rotary.frequencies().size());
  for (const double frequency : rotary.frequencies()) {
    lengths.push_back(frequency == 0 ? std::numeric_limits<double>::infinity() : 2 * std::numbers::pi / std::abs(frequency));
  }
  return lengths;
}

namespace {

Result<AngleError> largest_error(const Rotary& rotary, std::int64_t position) {
  const auto truth = row_at<double>("angle_error", rotary, position);
  if (!truth.ok()) return truth.status();
  const auto ours = row_at<float>("angle_error", rotary, position);
  if (!ours.ok()) return ours.status();
  AngleError error;
  for (std::size_t i = 0; i < truth->cos.size(); ++i) {
    const auto peers = analysis::float32_cos_sin(rotary, position, static_cast<std::int64_t>(i));
    const auto off = [&](double cos, double sin) { return std::max(std::abs(cos - truth->cos[i]), std::abs(sin - truth->sin[i])); };
    error.exact = std::max(error.exact, off(ours->cos[i], ours->sin[i]));
    error.float32 = std::max(error.float32, off(peers.cos, peers.sin));
  }
  return error;
}

}  // namespace

Result<AngleError> angle_error(const Rotary& rotary, std::int64_t position) {
  return spec::without_exceptions([&] { return largest_error(rotary, position); });
}

}  // namespace phasor
