// SPDX-License-Identifier: Apache-2.0
// Builders of positions from offsets, ragged batches, masks and draft trees.
#include <vector>

#include "job/positions/build.hpp"
#include "job/positions/positions.hpp"
#include "ops/run.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;
using job::PositionSink;

/// `offsets` may be empty (0), one (for every row) or one per row.
std::int64_t offset_of(const Integers& offsets, std::int64_t row) {
  return offsets.size == 0 ? 0 : at(offsets, offsets.size == 1 ? 0 : row);
}

}  // namespace

Status fill_from_offset(const PositionsView& out, std::int64_t offset, const Execution& execution) {
  return ops::run(job::make_offset_job(out, offset), &backend::Backend::build_positions, execution);
}

Status fill_from_offsets(const PositionsView& out, const Integers& offsets, const Execution& execution) {
  return ops::run(job::make_offsets_job(out, offsets), &backend::Backend::build_positions, execution);
}

Status fill_from_cu_seqlens(const PositionsView& out, const Ragged& ragged, const Execution& execution) {
  return ops::run(job::make_ragged_job(out, ragged), &backend::Backend::build_positions, execution);
}

Status fill_from_mask(const PositionsView& out, const AttentionMask& mask, const MaskRule& rule) {
  constexpr const char* where = "fill_from_mask";
  if (Status s = job::check_output(where, out); !s) return s;
  if (mask.past < 0 || mask.past > std::int64_t{1} << 56) return error(where, "past is {}, wanted 0 to 2^56", mask.past);
  const std::int64_t width = mask.past + out.shape[2];
  if (Status s = job::check_list(where, "mask", mask.values, out); !s) return s;
  if (out.shape[1] == 0 ? mask.values.size != 0 : mask.values.size % out.shape[1] != 0 || mask.values.size / out.shape[1] != width) {
    return error(where, "mask has {} elements, wanted {} rows of {}", mask.values.size, out.shape[1], width);
  }
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      std::int64_t kept = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t value = at(mask.values, b * width + i);
        if (!mask.pad && value != 0 && value != 1) {
          return error(where, "mask of token {} of batch row {} is {}, wanted 0 or 1", i, b, value);
        }
        const bool masked = mask.pad ? value == *mask.pad : value == 0;
        if (i >= mask.past) sink.put(b, i - mask.past, masked ? rule.masked : rule.first, masked ? 0 : kept);
        kept += masked ? 0 : 1;
      }
    }
    return Status();
  });
}

namespace {

/// Depth of every token of a row below the tokens accepted so far; a token without parent has 0.
Status fill_depths(const char* where, const Integers& parents, std::int64_t row, std::vector<std::int64_t>& depths) {
  const auto tokens = static_cast<std::int64_t>(depths.size());
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t parent = at(parents, row * tokens + t);
    if (parent < -1 || parent >= t) {
      return error(where, "token {} of row {} has parent {}, wanted -1 or a token before it", t, row, parent);
    }
    depths[static_cast<std::size_t>(t)] = parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1;
  }
  return {};
}

Status fill_checked_tree(const char* where, const PositionsView& out, const DraftTree& tree) {
  std::vector<std::int64_t> depths(static_cast<std::size_t>(out.shape[2]));
  const bool shared = tree.parents.size == out.shape[2];
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      if (Status s = fill_depths(where, tree.parents, shared ? 0 : b, depths); !s) return s;
      for (std::int64_t t = 0; t < out.shape[2]; ++t) sink.put(b, t, offset_of(tree.offsets, b), depths[static_cast<std::size_t>(t)]);
    }
    return Status();
  });
}

}  // namespace

Status fill_from_tree(const PositionsView& out, const DraftTree& tree) {
  constexpr const char* where = "fill_from_tree";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = job::check_list(where, "parents", tree.parents, out); !s) return s;
  if (tree.parents.size != out.shape[2] && tree.parents.size != out.shape[1] * out.shape[2]) {
    return error(where, "parents has {} elements, wanted {} or {}", tree.parents.size, out.shape[2], out.shape[1] * out.shape[2]);
  }
  if (Status s = job::check_list(where, "offsets", tree.offsets, out); !s) return s;
  if (tree.offsets.size > 1 && tree.offsets.size != out.shape[1]) {
    return error(where, "offsets has {} elements, wanted 1 or {}", tree.offsets.size, out.shape[1]);
  }
  return spec::without_exceptions([&] { return fill_checked_tree(where, out, tree); });
}

}  // namespace phasor
