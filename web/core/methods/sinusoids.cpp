// SPDX-License-Identifier: Apache-2.0
// Encodings that are added: rows, similarity, properties, the shift operator, growth of a table.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "phasor/additive.hpp"
#include "phasor/additive_properties.hpp"
#include "phasor/analysis.hpp"
#include "phasor/learned.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"

namespace phasor::web {
namespace {

constexpr std::int64_t kWidest = 4096;

struct Encoding {
  Sinusoidal sinusoidal;
  std::int64_t width;
};

Encoding encoding_of(Request& request, std::int64_t widest = kWidest) {
  const SinusoidalSpec spec = request.sinusoidal_spec();
  Sinusoidal made = value_of(Sinusoidal::make(spec), "sinusoidal");
  if (spec.width > widest) refuse("sinusoidal", fmt::format("width is {}, wanted at most {}", spec.width, widest));
  return {std::move(made), spec.width};
}

std::vector<double> rows_of(const Encoding& encoding, const figures::Numbers& at) {
  const auto rows = static_cast<std::int64_t>(at.size());
  if (rows > kMostTokens) refuse("positions", fmt::format("there are {} positions, wanted at most {}", rows, kMostTokens));
  std::vector<double> values(static_cast<std::size_t>(rows * encoding.width));
  const TensorView out = view(values.data(), {1, rows, 1, encoding.width});
  must(encoding.sinusoidal.fill(out, positions(at.data(), rows)), "sinusoidal");
  return values;
}

Json pairs_of(const ShiftOperator& shift) {
  Json list = Json::array();
  for (const ShiftOperator::Pair& pair : shift.pairs) {
    list.push_back(Json::object()
                       .with("sin_channel", pair.sin_channel)
                       .with("cos_channel", pair.cos_channel)
                       .with("cos", pair.cos)
                       .with("sin", pair.sin));
  }
  return list;
}

Json json_of(const std::string& name, EncodingProperties p, Blocks& blocks) {
  return Json::object()
      .with("name", name)
      .with("smallest_gap", p.smallest_gap)
      .with("unique", p.unique)
      .with("independent_of_length", p.independent_of_length)
      .with("largest", p.largest)
      .with("growth", p.growth)
      .with("bounded", p.bounded)
      .with("relative_defect", p.relative_defect)
      .with("relative", p.relative)
      .with("defined_beyond", p.defined_beyond)
      .with("alternations", blocks.add(std::move(p.alternations)));
}

/// The digits that positions below `length` have.
std::int64_t digits_of(std::int64_t length) {
  std::int64_t digits = 1;
  while ((std::int64_t{1} << digits) < length) ++digits;
  return digits;
}

}  // namespace

Json sinusoid(Request& request, Blocks& blocks) {
  const Encoding encoding = encoding_of(request);
  const figures::Numbers at = request.positions("positions", "0:100");
  std::vector<double> rows = rows_of(encoding, at);
  return Json::object()
      .with("positions", blocks.add(at))
      .with("rows", blocks.add(std::move(rows), {static_cast<std::int64_t>(at.size()), encoding.width}))
      .with("frequencies", blocks.add(encoding.sinusoidal.frequencies()));
}

Json sinusoid_similarity(Request& request, Blocks& blocks) {
  const Encoding encoding = encoding_of(request);
  const figures::Numbers at = request.positions("positions", "0:128");
  const bool cosine = request.choice("kind", {"cosine", "inner_product"}) == "cosine";
  if (at.size() > 1024) refuse("positions", "wanted at most 1024 positions");
  const std::vector<double> rows = rows_of(encoding, at);
  const ConstTensorView tensor = view(rows.data(), {1, static_cast<std::int64_t>(at.size()), 1, encoding.width});
  auto matrix = similarity(tensor, tensor, cosine ? Similarity::cosine : Similarity::inner_product);
  return Json::object().with("matrix", blocks.add(value_of(std::move(matrix), "positions")));
}

Json sinusoid_measure(Request& request, Blocks& blocks) {
  const Encoding encoding = encoding_of(request, 1024);
  const std::int64_t length = request.integer("length", 64, {2, 1024});
  const std::int64_t trained = request.integer("trained_length", 0, {0, 1024});
  const std::string kind = request.choice("encoding", {"sinusoidal", "raw_index", "scaled_index", "binary", "learned"});
  Random random(request.integer("seed", 1));
  const std::vector<double> table = random.normal<double>(kind == "learned" ? length * encoding.width : 0);
  EncodingRows rows = sinusoidal_rows(encoding.sinusoidal);
  if (kind == "raw_index") rows = raw_index_rows();
  if (kind == "scaled_index") rows = scaled_index_rows();
  if (kind == "binary") rows = binary_rows(digits_of(length));
  if (kind == "learned") rows = learned_rows(view(table.data(), {1, length, 1, encoding.width}));
  EncodingProperties properties = value_of(measure_encoding(rows, length, trained), "length");
  return json_of(rows.name, std::move(properties), blocks);
}

Json sinusoid_shift(Request& request, Blocks& blocks) {
  const Encoding encoding = encoding_of(request, kMostCells);
  const std::int64_t distance = request.integer("distance", 1, {-(std::int64_t{1} << 50), std::int64_t{1} << 50});
  const std::int64_t position = request.integer("position", 0, {0, std::int64_t{1} << 50});
  if (encoding.sinusoidal.axes() > 1) fail(Status::unsupported("positions of several axes have as many distances"), "sinusoidal");
  const ShiftOperator shift = value_of(encoding.sinusoidal.shift(static_cast<double>(distance)), "sinusoidal");
  std::vector<double> from = rows_of(encoding, {position});
  std::vector<double> to = rows_of(encoding, {position + distance});
  std::vector<double> shifted(from.size());
  must(apply_shift(shift, from, shifted), "sinusoidal");
  double largest = 0;
  for (std::size_t i = 0; i < to.size(); ++i) largest = std::max(largest, std::abs(shifted[i] - to[i]));
  return Json::object()
      .with("matrix", blocks.add(value_of(matrix_of(shift), "sinusoidal"), {encoding.width, encoding.width}))
      .with("pairs", pairs_of(shift))
      .with("from", blocks.add(std::move(from)))
      .with("shifted", blocks.add(std::move(shifted)))
      .with("to", blocks.add(std::move(to)))
      .with("largest_difference", largest);
}

Json sinusoid_hierarchical(Request& request, Blocks& blocks) {
  const std::int64_t n = request.integer("rows", 8, {2, 32});
  const std::int64_t width = request.integer("width", 32, {1, 512});
  const double alpha = request.number("alpha", 0.4);
  Random random(request.integer("seed", 1));
  std::vector<double> table = random.normal<double>(n * width);
  if (!request.flag("learned", false)) {
    const Sinusoidal sinusoidal = value_of(Sinusoidal::make({.width = width}), "width");
    must(sinusoidal.fill(view(table.data(), {1, n, 1, width}), positions_from(0)), "width");
  }
  std::vector<double> grown(static_cast<std::size_t>(n * n * width));
  const Extents shape{1, n * n, 1, width};
  must(fill_hierarchical(view(grown.data(), shape), view(std::as_const(table).data(), {1, n, 1, width}), alpha), "alpha");
  const ConstTensorView tensor = view(std::as_const(grown).data(), shape);
  Matrix cosines = value_of(similarity(tensor, tensor), "rows");
  const Gap gap = value_of(smallest_gap(tensor), "rows");
  return Json::object()
      .with("table", blocks.add(std::move(table), {n, width}))
      .with("rows", blocks.add(std::move(grown), {n * n, width}))
      .with("similarity", blocks.add(std::move(cosines)))
      .with("smallest_gap", Json::object().with("gap", gap.gap).with("first", gap.first).with("second", gap.second));
}

}  // namespace phasor::web
