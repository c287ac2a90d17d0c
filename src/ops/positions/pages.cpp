// SPDX-License-Identifier: Apache-2.0
// Paged caches: the position of what lies in every place, and the slot of what is at a position.
#include <algorithm>
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

/// Which page of its sequences a block is, and how many slots of it are taken.
struct Block {
  std::int64_t page = -1;
  std::int64_t taken = 0;
};

Status take_pages(const char* where, const PageTable& table, std::vector<Block>& blocks) {
  const std::int64_t pages = table.lengths.size == 0 ? 0 : table.blocks.size / table.lengths.size;
  for (std::int64_t s = 0; s < table.lengths.size; ++s) {
    const std::int64_t length = at(table.lengths, s);
    if (length < 0 || length > pages * table.page_size) {
      return error(where, "sequence {} has {} tokens, wanted 0 to {} for its {} pages", s, length, pages * table.page_size, pages);
    }
    for (std::int64_t page = 0; page * table.page_size < length; ++page) {
      const std::int64_t b = at(table.blocks, s * pages + page);
      if (b < 0 || b >= static_cast<std::int64_t>(blocks.size())) {
        return error(where, "page {} of sequence {} is block {}, wanted 0 to {}", page, s, b, static_cast<std::int64_t>(blocks.size()) - 1);
      }
      Block& block = blocks[static_cast<std::size_t>(b)];
      if (block.page >= 0 && block.page != page) {
        return error(where, "block {} is page {} and page {} (of sequence {}), wanted one", b, block.page, page, s);
      }
      block.page = page;
      block.taken = std::max(block.taken, std::min(table.page_size, length - page * table.page_size));
    }
  }
  return {};
}

Status fill_checked_pages(const char* where, const PositionsView& out, const PageTable& table, std::int64_t empty) {
  std::vector<Block> blocks(static_cast<std::size_t>(out.shape[1]));
  if (Status s = take_pages(where, table, blocks); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      const Block& block = blocks[static_cast<std::size_t>(b)];
      for (std::int64_t place = 0; place < table.page_size; ++place) {
        sink.put(b, place, place < block.taken ? block.page * table.page_size + place : empty);
      }
    }
    return Status();
  });
}

}  // namespace

Status fill_from_pages(const PositionsView& out, const PageTable& table, std::int64_t empty) {
  constexpr const char* where = "fill_from_pages";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = job::check_table(where, table, table.lengths.size, out); !s) return s;
  if (Status s = job::check_extents(where, out, 0, table.page_size); !s) return s;
  return spec::without_exceptions([&] { return fill_checked_pages(where, out, table, empty); });
}

Status fill_slots(const PositionsView& out, const PageTable& table, const Positions& at_positions, const Integers& cu_seqlens,
                  const Execution& execution) {
  return ops::run(job::make_slots_job(out, table, at_positions, cu_seqlens), &backend::Backend::build_positions, execution);
}

}  // namespace phasor
