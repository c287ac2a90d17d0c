// SPDX-License-Identifier: Apache-2.0
// Keeps blocks.
#include "web/core/blocks.hpp"

#include <utility>

namespace phasor::web {

Json Blocks::keep(Block block, const char* type, const Shape& shape) {
  const std::size_t index = all_.size();
  all_.push_back(std::move(block));
  return Json::object().with("block", index).with("type", type).with("shape", shape);
}

Json Blocks::add(std::vector<double> values, const Shape& shape) { return keep(std::move(values), "f64", shape); }
Json Blocks::add(std::vector<float> values, const Shape& shape) { return keep(std::move(values), "f32", shape); }
Json Blocks::add(std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return add(std::move(values), {size});
}
Json Blocks::add(const std::vector<std::int64_t>& values) { return add(std::vector<double>(values.begin(), values.end())); }
Json Blocks::add(Matrix matrix) { return add(std::move(matrix.values), {matrix.rows, matrix.columns}); }

}  // namespace phasor::web
