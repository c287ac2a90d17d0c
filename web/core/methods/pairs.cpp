// SPDX-License-Identifier: Apache-2.0
// Pairs: their frequencies, where positions turn them to, and one rotation in its four forms.
#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "phasor/analysis.hpp"
#include "web/core/methods.hpp"

namespace phasor::web {
namespace {

constexpr std::int64_t kWidestMatrix = 512;
constexpr std::int64_t kMostValues = std::int64_t{1} << 22;

struct Channels {
  std::int64_t first = 0;
  std::int64_t second = 0;
};

/// The two channels of a pair among the rotated ones: each segment is paired within itself.
Channels channels_of(const Rotary& rotary, std::int64_t pair, Pairing pairing) {
  const std::int64_t part = rotary.rotary_width() / rotary.spec().segments;
  const std::int64_t in_part = pair % (part / 2);
  const std::int64_t begin = pair / (part / 2) * part;
  if (pairing == Pairing::half) return {begin + in_part, begin + in_part + part / 2};
  return {begin + 2 * in_part, begin + 2 * in_part + 1};
}

/// Where a pair is read, and where it is written.
struct Places {
  Channels in;
  Channels out;
};
Places places_of(const Rotary& rotary, std::int64_t pair) {
  const RotarySpec& spec = rotary.spec();
  return {channels_of(rotary, pair, spec.pairing), channels_of(rotary, pair, spec.output_pairing.value_or(spec.pairing))};
}

/// A pair as both cos and sin tables have it.
Rotary paired(Request& request) {
  Rotary rotary = value_of(Rotary::make(request.rotary_spec()), "spec");
  if (rotary.spec().lanes != Lanes::alike) fail(Status::unsupported("per-channel frequencies have no pairs"), "spec");
  const auto* directions = std::get_if<GivenDirections>(&rotary.spec().scaling);
  if (directions != nullptr && directions->heads > 1) {
    fail(Status::unsupported("heads with directions of their own have no pairs in common"), "spec");
  }
  return rotary;
}

/// Which axis turns each pair, found by turning along one axis at a time.
Json axes_of(const Rotary& rotary) {
  const Axes& axes = rotary.spec().axes;
  const std::int64_t pairs = rotary.rotary_width() / 2;
  const auto count = static_cast<std::int64_t>(axes.order == AxisOrder::given ? 4 : axes.sections.size());
  std::vector<std::int64_t> list(static_cast<std::size_t>(pairs), 0);
  if (axes.order == AxisOrder::given) {
    for (std::size_t i = 0; i < axes.axis_of_pair.size(); ++i) list[i] = axes.axis_of_pair[i];
    return list;
  }
  for (std::int64_t axis = 1; axis < count; ++axis) {
    std::vector<double> at(static_cast<std::size_t>(count), 0);
    at[static_cast<std::size_t>(axis)] = 1;
    std::vector<double> cosines(list.size());
    std::vector<double> sines(list.size());
    const Extents shape{1, 1, 1, pairs};
    must(rotary.cos_sin(positions(at.data(), count, 1, 1), view(cosines.data(), shape), view(sines.data(), shape)), "spec");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (sines[i] != 0) list[i] = axis;
    }
  }
  return list;
}

template <class T>
struct Tables {
  std::vector<T> cos;
  std::vector<T> sin;
};

template <class T>
Tables<T> tables_at(const Rotary& rotary, const figures::Numbers& at) {
  const auto rows = static_cast<std::int64_t>(at.size());
  const std::int64_t pairs = rotary.rotary_width() / 2;
  if (rows > kMostValues / pairs) refuse("positions", "too many positions for so many pairs, wanted at most 2^22 values");
  Tables<T> tables{std::vector<T>(static_cast<std::size_t>(rows * pairs)), std::vector<T>(static_cast<std::size_t>(rows * pairs))};
  const Extents shape{1, rows, 1, pairs};
  must(rotary.cos_sin(positions(at.data(), rows), view(tables.cos.data(), shape), view(tables.sin.data(), shape)), "positions");
  return tables;
}

template <class T>
Json tables_json(const Rotary& rotary, const figures::Numbers& at, Blocks& blocks) {
  Tables<T> tables = tables_at<T>(rotary, at);
  const Shape shape{static_cast<std::int64_t>(at.size()), rotary.rotary_width() / 2};
  return Json::object()
      .with("positions", at)
      .with("cos", blocks.add(std::move(tables.cos), shape))
      .with("sin", blocks.add(std::move(tables.sin), shape));
}

Json point(double x, double y) { return std::vector<double>{x, y}; }

/// A head whose pair holds the point, rotated by the library, read back.
std::vector<double> applied(const Rotary& rotary, const Places& at, const std::vector<double>& xy, std::int64_t position) {
  const RotarySpec& spec = rotary.spec();
  std::vector<double> head(static_cast<std::size_t>(spec.head_dim), 0);
  head[static_cast<std::size_t>(spec.rotary_offset + at.in.first)] = xy[0];
  head[static_cast<std::size_t>(spec.rotary_offset + at.in.second)] = xy[1];
  must(rotary.apply(view(head.data(), {1, 1, 1, spec.head_dim}), positions_from(position)), "position");
  return {head[static_cast<std::size_t>(spec.rotary_offset + at.out.first)],
          head[static_cast<std::size_t>(spec.rotary_offset + at.out.second)]};
}

Json matrix_form(const Rotary& rotary, const Places& at, const std::vector<double>& xy, std::int64_t position) {
  const Matrix matrix = value_of(rotation_matrix(rotary, position), "position");
  const auto entry = [&](std::int64_t row, std::int64_t column) {
    return matrix.values[static_cast<std::size_t>(row * matrix.columns + column)];
  };
  const double a = entry(at.out.first, at.in.first);
  const double b = entry(at.out.first, at.in.second);
  const double c = entry(at.out.second, at.in.first);
  const double d = entry(at.out.second, at.in.second);
  Json rows = Json::array();
  rows.push_back(point(a, b));
  rows.push_back(point(c, d));
  return Json::object().with("values", rows).with("point", point(a * xy[0] + b * xy[1], c * xy[0] + d * xy[1]));
}

}  // namespace

Json pairs(Request& request, Blocks& blocks) {
  const Rotary rotary = paired(request);
  const std::int64_t length = request.integer("length", 4096, {1, std::int64_t{1} << 53});
  const auto all = value_of(pair_turns(rotary, length), "length");
  std::vector<double> frequencies;
  std::vector<double> lengths;
  std::vector<double> turns;
  for (const PairTurns& one : all) {
    frequencies.push_back(one.frequency);
    lengths.push_back(one.wavelength);
    turns.push_back(one.turns);
  }
  Json channels = Json::array();
  for (std::int64_t pair = 0; pair < rotary.rotary_width() / 2; ++pair) {
    const Channels of = channels_of(rotary, pair, rotary.spec().pairing);
    channels.push_back(std::vector<std::int64_t>{of.first + rotary.spec().rotary_offset, of.second + rotary.spec().rotary_offset});
  }
  return Json::object()
      .with("pairs", rotary.rotary_width() / 2)
      .with("frequencies", blocks.add(std::move(frequencies)))
      .with("wavelengths", blocks.add(std::move(lengths)))
      .with("turns", blocks.add(std::move(turns)))
      .with("axis_of_pair", axes_of(rotary))
      .with("channels", channels)
      .with("amplitude", rotary.amplitude())
      .with("softmax_scale", rotary.softmax_scale());
}

Json pairs_cos_sin(Request& request, Blocks& blocks) {
  const Rotary rotary = paired(request);
  const figures::Numbers at = request.positions("positions", "0:128");
  const bool wide = request.choice("type", {"f64", "f32"}) == "f64";
  return wide ? tables_json<double>(rotary, at, blocks) : tables_json<float>(rotary, at, blocks);
}

Json pairs_forms(Request& request, Blocks& /*blocks*/) {
  const Rotary rotary = paired(request);
  const std::int64_t last = rotary.rotary_width() / 2 - 1;
  const std::int64_t pair = request.integer("pair", 0, {0, last});
  const std::int64_t position = request.integer("position", 0, {-(std::int64_t{1} << 53), std::int64_t{1} << 53});
  const std::vector<double> xy = request.numbers("point", {1, 0});
  if (xy.size() != 2) refuse("point", "point has another number of coordinates, wanted x and y");
  const Places at = places_of(rotary, pair);
  const std::int64_t offset = rotary.spec().rotary_offset;
  const auto tables = tables_at<double>(rotary, {position});
  const double c = tables.cos[static_cast<std::size_t>(pair)];
  const double s = tables.sin[static_cast<std::size_t>(pair)] * (rotary.spec().sense == Sense::clockwise ? -1 : 1);
  const PairTurns turn =
      value_of(pair_turns(rotary, std::max<std::int64_t>(std::abs(position), 1)), "position")[static_cast<std::size_t>(pair)];
  const double turns = position == 0 ? 0 : turn.turns;
  return Json::object()
      .with("channels", std::vector<std::int64_t>{offset + at.in.first, offset + at.in.second})
      .with("frequency", turn.frequency)
      .with("wavelength", turn.wavelength)
      .with("turns", point(std::floor(turns), turns - std::floor(turns)))
      .with("cos", c)
      .with("sin", s)
      .with("matrix", matrix_form(rotary, at, xy, position))
      .with("complex", Json::object().with("factor", point(c, s)).with("point", point(xy[0] * c - xy[1] * s, xy[0] * s + xy[1] * c)))
      .with("elementwise", Json::object()
                               .with("cos", point(c, c))
                               .with("sin", point(-s, s))
                               .with("swapped", point(xy[1], xy[0]))
                               .with("point", point(c * xy[0] + -s * xy[1], c * xy[1] + s * xy[0])))
      .with("apply", Json::object().with("point", applied(rotary, at, xy, position)));
}

Json pairs_matrix(Request& request, Blocks& blocks) {
  const Rotary rotary = value_of(Rotary::make(request.rotary_spec()), "spec");
  if (rotary.rotary_width() > kWidestMatrix) {
    refuse("spec", fmt::format("the rotary width is {}, wanted at most {}", rotary.rotary_width(), kWidestMatrix));
  }
  const std::int64_t position = request.integer("position", 1);
  const bool relative = request.has("key_position");
  const std::int64_t key = request.integer("key_position", 0);
  auto matrix = relative ? relative_matrix(rotary, position, key) : rotation_matrix(rotary, position);
  return Json::object().with("matrix", blocks.add(value_of(std::move(matrix), "position")));
}

}  // namespace phasor::web
