// SPDX-License-Identifier: Apache-2.0
// Number blocks of a response: long lists that the page views in the heap instead of reading them as JSON.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "figures/json.hpp"
#include "phasor/analysis.hpp"

namespace phasor::web {

using figures::Json;
using Shape = std::vector<std::int64_t>;

class Blocks {
 public:
  using Block = std::variant<std::vector<double>, std::vector<float>>;

  /// Keeps the numbers, row by row, and returns what stands for them in the response.
  Json add(std::vector<double> values, const Shape& shape);
  Json add(std::vector<float> values, const Shape& shape);
  Json add(std::vector<double> values);
  Json add(const std::vector<std::int64_t>& values);
  Json add(Matrix matrix);

  const std::vector<Block>& all() const { return all_; }

 private:
  Json keep(Block block, const char* type, const Shape& shape);

  std::vector<Block> all_;
};

}  // namespace phasor::web
