// SPDX-License-Identifier: Apache-2.0
// Rows of tensors as float64: every check of them.
#include "analysis/rows.hpp"

#include "analysis/values.hpp"
#include "job/check.hpp"

namespace phasor::analysis {

Result<Rows> read_rows(const ConstTensorView& tensor, const RowLimits& limits) {
  const auto& [where, name, least, most] = limits;
  for (const int axis : {0, 2}) {
    if (tensor.shape[static_cast<std::size_t>(axis)] != 1) {
      return job::error(where, "{} of {} are {}, wanted 1", job::kAxisNames[axis], name, tensor.shape[static_cast<std::size_t>(axis)]);
    }
  }
  const std::int64_t count = tensor.shape[1];
  const std::int64_t width = tensor.shape[3];
  if (count < least || count > most) return job::error(where, "rows of {} are {}, wanted {} to {}", name, count, least, most);
  if (width < 1) return job::error(where, "{} has head_dim {}, wanted at least 1", name, width);
  if (Status status = job::check_view(where, name, tensor); !status) return status;
  Rows rows{count, width, {}};
  rows.values.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < width; ++c) rows.values.push_back(value_at(tensor, i * tensor.strides[1] + c));
  }
  return rows;
}

}  // namespace phasor::analysis
