// SPDX-License-Identifier: Apache-2.0
// Builders of positions from grids of image patches.
#include <array>

#include "job/positions/positions.hpp"
#include "math/positions.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;
using job::PositionSink;

constexpr std::int64_t kLargest = std::int64_t{1} << 50;  // patches; keeps every product and index small
constexpr std::array<GridAxis, 2> kRowColumn = {GridAxis::row, GridAxis::column};

std::span<const GridAxis> axes_of(const GridLayout& layout) {
  return layout.axes.empty() ? std::span<const GridAxis>(kRowColumn) : layout.axes;
}

/// Frame, row and column, as GridAxis counts them.
using Patch = std::array<std::int64_t, 3>;

std::int64_t extent(const ImageGrid& grid, GridAxis axis) {
  return axis == GridAxis::frame ? grid.frames : axis == GridAxis::row ? grid.rows : grid.columns;
}

Status check_grid(const char* where, const ImageGrid& grid, std::int64_t index, std::int64_t merge) {
  __extension__ typedef __int128 Wide;
  if (grid.frames < 0 || grid.rows < 0 || grid.columns < 0) {
    return error(where, "grid {} is {} x {} x {}, wanted no negative extent", index, grid.frames, grid.rows, grid.columns);
  }
  if (grid.frames > kLargest || grid.rows > kLargest || grid.columns > kLargest || Wide{grid.frames} * grid.rows > kLargest ||
      Wide{grid.frames} * grid.rows * grid.columns > kLargest) {
    return error(where, "grid {} is {} x {} x {}, wanted at most 2^50 patches", index, grid.frames, grid.rows, grid.columns);
  }
  if (grid.rows % merge != 0 || grid.columns % merge != 0) {
    return error(where, "grid {} has {} rows and {} columns, wanted multiples of merge {}", index, grid.rows, grid.columns, merge);
  }
  return {};
}

Status check_layout(const char* where, const GridLayout& layout, const PositionsView& out) {
  const auto axes = axes_of(layout);
  if (static_cast<std::int64_t>(axes.size()) != out.shape[0]) {
    return error(where, "out has {} axes, the layout has {}", out.shape[0], axes.size());
  }
  for (const GridAxis axis : axes) {
    if (axis != GridAxis::frame && axis != GridAxis::row && axis != GridAxis::column) {
      return error(where, "layout has an unknown axis ({}), wanted frame, row or column", static_cast<int>(axis));
    }
  }
  if (layout.merge < 1 || layout.merge > kLargest) return error(where, "merge is {}, wanted at least 1", layout.merge);
  if (layout.prefix < 0 || layout.prefix > kLargest) return error(where, "prefix is {}, wanted at least 0", layout.prefix);
  if (layout.suffix < 0 || layout.suffix > kLargest) return error(where, "suffix is {}, wanted at least 0", layout.suffix);
  if (layout.unit == GridUnit::centre && out.type != PositionType::f64) return error(where, "out holds integers, patch centres want f64");
  return {};
}

void put_patch(PositionSink& sink, std::int64_t b, std::int64_t t, const Patch& patch,
               const std::pair<const ImageGrid*, const GridLayout*>& of) {
  const auto& [grid, layout] = of;
  std::int64_t place = 0;
  for (const GridAxis axis : axes_of(*layout)) {
    const std::int64_t i = patch[static_cast<std::size_t>(axis)];
    if (layout->unit == GridUnit::centre) {
      sink.put_fraction({place, b, t}, math::patch_centre(i, extent(*grid, axis)));
    } else {
      sink.put_axis({place, b, t}, layout->first, i);
    }
    ++place;
  }
}

/// The n-th patch of a grid gone through by squares of merge x merge.
Patch patch_at(const ImageGrid& grid, std::int64_t merge, std::int64_t n) {
  const std::int64_t in_frame = n % (grid.rows * grid.columns);
  const std::int64_t band = merge * grid.columns;  // rows of one square
  const std::int64_t square = in_frame % band / (merge * merge);
  const std::int64_t in_square = in_frame % (merge * merge);
  return {n / (grid.rows * grid.columns), in_frame / band * merge + in_square / merge, square * merge + in_square % merge};
}

void put_grid(PositionSink& sink, const ImageGrid& grid, const GridLayout& layout, std::int64_t& t) {
  for (std::int64_t i = 0; i < layout.prefix; ++i) sink.put(0, t++, layout.outside);
  const std::int64_t patches = grid.frames * grid.rows * grid.columns;
  for (std::int64_t n = 0; n < patches; ++n) put_patch(sink, 0, t++, patch_at(grid, layout.merge, n), {&grid, &layout});
  for (std::int64_t i = 0; i < layout.suffix; ++i) sink.put(0, t++, layout.outside);
}

}  // namespace

Status fill_from_grids(const PositionsView& out, std::span<const ImageGrid> grids, const GridLayout& layout) {
  constexpr const char* where = "fill_from_grids";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = check_layout(where, layout, out); !s) return s;
  std::int64_t tokens = 0;
  std::int64_t index = 0;
  for (const ImageGrid& grid : grids) {
    if (Status s = check_grid(where, grid, index++, layout.merge); !s) return s;
    tokens += grid.frames * grid.rows * grid.columns + layout.prefix + layout.suffix;
    if (tokens > kLargest) return error(where, "grids have more than 2^50 tokens, wanted {}", out.shape[2]);
  }
  if (Status s = job::check_extents(where, out, 1, tokens); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    std::int64_t t = 0;
    for (const ImageGrid& grid : grids) put_grid(sink, grid, layout, t);
    return Status();
  });
}

Status fill_from_patches(const PositionsView& out, const Integers& patches, const ImageGrid& grid, const GridLayout& layout) {
  constexpr const char* where = "fill_from_patches";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = check_layout(where, layout, out); !s) return s;
  if (layout.merge != 1 || layout.prefix != 0 || layout.suffix != 0) return error(where, "layout has merge, prefix or suffix, wanted none");
  if (Status s = check_grid(where, grid, 0, 1); !s) return s;
  if (Status s = job::check_list_of(where, "patches", patches, out, out.shape[1] * out.shape[2]); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t i = 0; i < patches.size; ++i) {
      const std::int64_t n = at(patches, i);
      if (n < 0 || n >= grid.frames * grid.rows * grid.columns) {
        return error(where, "patch {} is {}, wanted 0 to {}", i, n, grid.frames * grid.rows * grid.columns - 1);
      }
      put_patch(sink, i / out.shape[2], i % out.shape[2], patch_at(grid, 1, n), {&grid, &layout});
    }
    return Status();
  });
}

}  // namespace phasor
