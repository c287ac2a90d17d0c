// SPDX-License-Identifier: Apache-2.0
// Builders of positions for learned and image encodings: Abacus's digits and DETR's pixels.
#include "job/positions/positions.hpp"
#include "phasor/learned.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;
using job::PositionSink;

bool is_one_of(const Integers& list, std::int64_t value) {
  for (std::int64_t i = 0; i < list.size; ++i) {
    if (at(list, i) == value) return true;
  }
  return false;
}

/// Pixels of a line that are no padding: as many as there are before and with place `i`, and in all.
struct Count {
  std::int64_t until = 0;
  std::int64_t all = 0;
};

/// A line of n pixels that begins at `first` of the mask, `stride` apart.
struct Line {
  std::int64_t first;
  std::int64_t stride;
  std::int64_t n;
};

Count count_of(const Integers& mask, const Line& line, std::int64_t i) {
  if (mask.size == 0) return {i + 1, line.n};
  Count count;
  for (std::int64_t k = 0; k < line.n; ++k) {
    const std::int64_t one = at(mask, line.first + k * line.stride);
    count.all += one;
    if (k <= i) count.until += one;
  }
  return count;
}

void put_count(PositionSink& sink, const PositionSink::Place& place, const Count& count, bool normalised) {
  if (normalised) return sink.put_fraction(place, static_cast<double>(count.until) / (static_cast<double>(count.all) + 1e-6));
  sink.put_axis(place, count.until);
}

Status check_grid(const char* where, const PositionsView& out, const DetrGrid& grid) {
  constexpr std::int64_t most = std::int64_t{1} << 28;
  if (grid.rows < 0 || grid.columns < 0 || grid.rows > most || grid.columns > most)
    return error(where, "grid is {} x {}, wanted 0 to 2^28 each", grid.rows, grid.columns);
  if (out.shape[0] != 2) return error(where, "out has {} axes, wanted 2 (row, column)", out.shape[0]);
  if (Status s = job::check_extents(where, out, 0, grid.rows * grid.columns); !s) return s;
  if (grid.normalised && out.type != PositionType::f64) return error(where, "out holds integers, wanted f64 for normalised positions");
  if (grid.mask.size == 0) return {};
  if (Status s = job::check_list_of(where, "mask", grid.mask, out, out.shape[1] * out.shape[2]); !s) return s;
  for (std::int64_t i = 0; i < grid.mask.size; ++i) {
    if (at(grid.mask, i) != 0 && at(grid.mask, i) != 1) return error(where, "mask has {} at {}, wanted 0 or 1", at(grid.mask, i), i);
  }
  return {};
}

}  // namespace

Status fill_abacus(const PositionsView& out, const AbacusTokens& tokens) {
  constexpr const char* where = "fill_abacus";
  if (Status s = job::check_output(where, out); !s) return s;
  if (tokens.offset < 0) return error(where, "offset is {}, wanted 0 or above", tokens.offset);
  if (Status s = job::check_list_of(where, "input_ids", tokens.input_ids, out, out.shape[1] * out.shape[2]); !s) return s;
  if (Status s = job::check_list(where, "digits", tokens.digits, out); !s) return s;
  if (tokens.digits.size == 0) return error(where, "digits is empty, wanted the token ids of the digits");
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      std::int64_t run = 0;
      for (std::int64_t t = 0; t < out.shape[2]; ++t) {
        run = is_one_of(tokens.digits, at(tokens.input_ids, b * out.shape[2] + t)) ? run + 1 : 0;
        sink.put(b, t, run == 0 ? 0 : tokens.offset, run);
      }
    }
    return Status();
  });
}

Status fill_detr(const PositionsView& out, const DetrGrid& grid) {
  constexpr const char* where = "fill_detr";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = check_grid(where, out, grid); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      const std::int64_t image = b * grid.rows * grid.columns;
      for (std::int64_t t = 0; t < out.shape[2]; ++t) {
        const std::int64_t row = t / grid.columns;
        const std::int64_t column = t % grid.columns;
        put_count(sink, {0, b, t}, count_of(grid.mask, {image + column, grid.columns, grid.rows}, row), grid.normalised);
        put_count(sink, {1, b, t}, count_of(grid.mask, {image + row * grid.columns, 1, grid.columns}, column), grid.normalised);
      }
    }
    return Status();
  });
}

}  // namespace phasor
