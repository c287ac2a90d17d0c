// SPDX-License-Identifier: Apache-2.0
// Biases of images by two offsets (Swin, BEiT), on the host side.
#include "cpu/attention/host_terms/grid.hpp"

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "job/check.hpp"

namespace phasor::attend {
namespace {

std::int64_t grid_rows(const Window& window) { return (2 * window.height - 1) * (2 * window.width - 1); }
std::int64_t class_rows(const GridTerm& term) { return term.class_token == ClassToken::first ? 3 : 0; }

/// Positions are numbers of the grid's tokens.
Status check(const GridTerm& term, const TermContext& context) {
  const std::int64_t tokens = term.window.height * term.window.width + (term.class_token == ClassToken::first ? 1 : 0);
  if (Status status = check_tokens(context.where, "query", query_range(*context.asked, context.job->shape), tokens); !status) return status;
  return check_tokens(context.where, "key", key_range(*context.asked, context.job->shape), tokens);
}

/// See GridJob.
void* pack_grid(const GridTerm& term, std::int64_t rows, const AttentionJob& job, Arena& arena) {
  const std::int64_t size = rows + kGridMargin;
  void* const memory = arena.take_bytes(heads_of(term.table) * size * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T zero) {
    for (std::int64_t n = 0; n < heads_of(term.table) * size; ++n) {
      const std::int64_t row = rows - 1 - n % size;
      static_cast<T*>(memory)[n] = row < 0 ? zero : static_cast<T>(element_at(term.table, {0, row, n / size}, 0));
    }
  });
  return memory;
}

void* pack_class_token(const GridTerm& term, const AttentionJob& job, Arena& arena) {
  if (class_rows(term) == 0) return nullptr;
  void* const memory = arena.take_bytes(3 * heads_of(term.table) * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    for (std::int64_t n = 0; n < 3 * heads_of(term.table); ++n) {
      static_cast<T*>(memory)[n] = static_cast<T>(element_at(term.table, {0, grid_rows(term.window) + n % 3, n / 3}, 0));
    }
  });
  return memory;
}

}  // namespace

Status check_tokens(const char* where, const char* side, const PositionRange& range, std::int64_t tokens) {
  if (range.greatest < range.least) return {};
  if (range.least >= 0 && range.greatest < tokens) return {};
  return job::error(where, "{} positions are {} to {}, the grid has 0 to {}", side, range.least, range.greatest, tokens - 1);
}

Status make_term(const GridTerm& term, const TermContext& context, Arena& arena, TermJob& out) {
  if (Status status = check(term, context); !status) return status;
  const AttentionJob& job = *context.job;
  GridJob made{.height = term.window.height, .width = term.window.width};
  made.origin = (made.height - 1) * (2 * made.width - 1) + made.width - 1;
  made.class_token = class_rows(term) > 0;
  made.shares_heads = heads_of(term.table) == 1;
  made.rows = grid_rows(term.window);
  made.table = pack_grid(term, made.rows, job, arena);
  made.class_table = pack_class_token(term, job, arena);
  made.sum_size = made.rows + kGridMargin + 3;
  if (context.gradient != nullptr && is_given(context.gradient->table)) made.sums = take_sums(made.sum_size, job, arena);
  out = made;
  return {};
}

std::int64_t scratch_of(const GridJob& /*term*/, const AttentionJob& /*job*/, bool /*backward*/) { return 0; }

void finish_term(const GridTerm& term, const GridJob& made, const TermContext& context) {
  if (made.sums == nullptr) return;
  const std::int64_t rows = grid_rows(term.window);
  for (std::int64_t h = 0; h < context.job->shape.heads; ++h) {
    for (std::int64_t row = 0; row < term.table.shape[1]; ++row) {
      const std::int64_t at = row < rows ? rows - 1 - row : row + kGridMargin;
      add_to_element(context.gradient->table, {0, row, h}, 0, sum_of_slots(made.sums, made.sum_size, *context.job, h, at));
    }
  }
}

TermCost cost_of(const GridJob& /*term*/, const AttentionJob& /*job*/) { return {.per_score = 1, .name = "grid bias"}; }

}  // namespace phasor::attend
