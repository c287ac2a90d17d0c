// SPDX-License-Identifier: Apache-2.0
// Paged caches: the position of what lies in every place, and the slot of what is at a position.
#include <algorithm>
#include <vector>

#include "job/positions.hpp"
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

/// Tables are (sequences, pages).
Status check_table(const char* where, const PageTable& table, std::int64_t sequences, const PositionsView& out) {
  if (table.page_size < 1 || table.page_size > std::int64_t{1} << 40) {
    return error(where, "page_size is {}, wanted 1 to 2^40", table.page_size);
  }
  if (Status s = job::check_list(where, "blocks", table.blocks, out); !s) return s;
  if (sequences == 0 ? table.blocks.size != 0 : table.blocks.size % sequences != 0) {
    return error(where, "blocks has {} elements, wanted as many for each of {} sequences", table.blocks.size, sequences);
  }
  return job::check_list(where, "lengths", table.lengths, out);
}

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

struct PagedToken {
  std::int64_t position;
  std::int64_t sequence;
  std::int64_t t;
};

/// Its slot, or an error that names the token.
Status find_slot(const char* where, const PageTable& table, std::int64_t sequences, const PagedToken& token, std::int64_t& slot) {
  const std::int64_t position = token.position;
  const std::int64_t pages = table.blocks.size / sequences;
  const std::int64_t page = position / table.page_size;
  const std::int64_t length = table.lengths.size == 0 ? position + 1 : at(table.lengths, token.sequence);
  if (page >= pages || position >= length) {
    return error(where, "token {} is at {}, sequence {} has {} pages of {} slots{}", token.t, position, token.sequence, pages,
                 table.page_size, position >= length ? " and ends before it" : "");
  }
  const std::int64_t block = at(table.blocks, token.sequence * pages + page);
  if (block < 0) return error(where, "token {} is at {}, but page {} of sequence {} has no block", token.t, position, page, token.sequence);
  if (__builtin_mul_overflow(block, table.page_size, &slot) || __builtin_add_overflow(slot, position % table.page_size, &slot)) {
    return error(where, "block {} of {} slots has slots beyond 2^63, wanted fewer", block, table.page_size);
  }
  return {};
}

}  // namespace

Status fill_from_pages(const PositionsView& out, const PageTable& table, std::int64_t empty) {
  constexpr const char* where = "fill_from_pages";
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = check_table(where, table, table.lengths.size, out); !s) return s;
  if (Status s = job::check_extents(where, out, 0, table.page_size); !s) return s;
  return spec::without_exceptions([&] { return fill_checked_pages(where, out, table, empty); });
}

Status fill_slots(const PositionsView& out, const PageTable& table, const Positions& at_positions, const Integers& cu_seqlens) {
  constexpr const char* where = "fill_slots";
  if (Status s = job::check_output(where, out); !s) return s;
  const bool ragged = cu_seqlens.size != 0;
  if (ragged) {
    if (Status s = job::check_ragged(where, {.cu_seqlens = cu_seqlens}, out, out.shape[2]); !s) return s;
    if (Status s = job::check_extents(where, out, 1, out.shape[2]); !s) return s;
  }
  const std::int64_t sequences = ragged ? cu_seqlens.size - 1 : out.shape[1];
  if (Status s = check_table(where, table, sequences, out); !s) return s;
  if (table.lengths.size != 0 && table.lengths.size != sequences) {
    return error(where, "lengths has {} elements, wanted {}", table.lengths.size, sequences);
  }
  if (Status s = job::check_source(where, at_positions, out); !s) return s;
  return job::fill(where, out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      std::int64_t sequence = ragged ? 0 : b;
      for (std::int64_t t = 0; t < out.shape[2]; ++t) {
        while (ragged && t >= at(cu_seqlens, sequence + 1)) ++sequence;
        const std::int64_t position = job::integer_at(at_positions, b, t);
        std::int64_t slot = -1;
        if (position >= 0) {
          if (Status s = find_slot(where, table, sequences, {position, sequence, t}, slot); !s) return s;
        }
        sink.put(b, t, slot);
      }
    }
    return Status();
  });
}

}  // namespace phasor
