// SPDX-License-Identifier: Apache-2.0
// Segments on the host side.
#include <cmath>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "job/check.hpp"
#include "job/positions/positions.hpp"

namespace phasor::attend {
namespace {

/// Kernels compare segments as T: whole numbers up to this are exact in float32.
constexpr std::int64_t kLargestSegment = std::int64_t{1} << 24;

Status check_segments(const char* where, const char* name, const Positions& segments, std::int64_t tokens) {
  for (std::int64_t b = 0; b < segments.shape[1]; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t segment = job::integer_at(segments, b, t);
      if (segment > kLargestSegment || segment < -kLargestSegment) {
        return job::error(where, "{} has segment {}, wanted at most 2^24 either way", name, segment);
      }
    }
  }
  return {};
}

/// (B or 1, tokens + more) T.
struct Segments {
  void* data;
  std::int64_t stride;
};
Segments pack_segments(const Positions& segments, std::int64_t tokens, std::int64_t more, const AttentionJob& job, Arena& arena) {
  const std::int64_t rows = segments.shape[1];
  const std::int64_t stride = tokens + more;
  void* const memory = arena.take_bytes(rows * stride * bytes_of(job.arithmetic));
  if (memory != nullptr) {
    with_arithmetic(job.arithmetic, [&]<class T>(T) {
      T* const out = static_cast<T*>(memory);
      for (std::int64_t b = 0; b < rows; ++b) {
        for (std::int64_t t = 0; t < stride; ++t) out[b * stride + t] = t < tokens ? static_cast<T>(job::integer_at(segments, b, t)) : T{0};
      }
    });
  }
  return {memory, rows == 1 ? 0 : stride};
}

double shift_dot(const job::SegmentTermJob& term, std::int64_t head, std::int64_t row) {
  double sum = 0;
  for (std::int64_t c = 0; c < term.table.shape[3]; ++c) {
    sum += element_at(term.shift, {0, 0, head}, c) * element_at(term.table, {0, row, head}, c);
  }
  return sum;
}

void* pack_constants(const job::SegmentTermJob& term, const TermContext& context, Arena& arena) {
  const AttentionJob& job = *context.job;
  void* const memory = arena.take_bytes(2 * job.shape.heads * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    for (std::int64_t n = 0; n < 2 * job.shape.heads; ++n) {
      static_cast<T*>(memory)[n] = is_given(term.shift) ? static_cast<T>(term.scale * shift_dot(term, n / 2, n % 2)) : T{0};
    }
  });
  return memory;
}

Status check(const job::SegmentTermJob& term, const TermContext& context) {
  const AttentionShape& s = context.job->shape;
  if (s.batch == 0) return {};
  if (Status status = check_segments(context.where, "query_segments", term.query_segments, s.queries); !status) return status;
  return check_segments(context.where, "key_segments", term.key_segments, s.keys);
}

}  // namespace

Status make_term(const job::SegmentTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  if (Status status = check(term, context); !status) return status;
  const AttentionJob& job = *context.job;
  const std::int64_t width = job.shape.padded_width;
  SegmentJob made;
  made.table = pack_rows(term.table, {.padded = width, .factor = term.scale}, job, arena);
  made.table_head_stride = heads_of(term.table) == 1 ? 0 : 2 * width;
  made.constants = pack_constants(term, context, arena);
  const Segments queries = pack_segments(term.query_segments, job.shape.queries, 0, job, arena);
  const Segments keys = pack_segments(term.key_segments, job.shape.keys, kKeyTile, job, arena);
  made.query_segments = queries.data;
  made.query_segment_stride = queries.stride;
  made.key_segments = keys.data;
  made.key_segment_stride = keys.stride;
  if (context.gradient != nullptr && (is_given(context.gradient->table) || is_given(context.gradient->shift))) {
    made.sum_size = 2 * width + 2;
    made.sums = take_sums(made.sum_size, job, arena);
  }
  out = made;
  return {};
}

/// Two numbers per row; backward: and their gradients.
std::int64_t scratch_of(const SegmentJob& /*term*/, const AttentionJob& /*job*/, bool backward) { return (backward ? 4 : 2) * kQueryTile; }

void finish_term(const job::SegmentTermJob& term, const SegmentJob& made, const TermContext& context) {
  if (made.sums == nullptr) return;
  const AttentionShape& s = context.job->shape;
  const double scale = term.scale;
  const TermGradient& gradient = *context.gradient;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    for (std::int64_t row = 0; row < 2; ++row) {
      const double dz = scale * sum_of_slots(made.sums, made.sum_size, *context.job, h, 2 * s.padded_width + row);
      for (std::int64_t c = 0; c < s.width; ++c) {
        if (is_given(gradient.shift)) add_to_element(gradient.shift, {0, 0, h}, c, dz * element_at(term.table, {0, row, h}, c));
        if (!is_given(gradient.table)) continue;
        const double by_q = scale * sum_of_slots(made.sums, made.sum_size, *context.job, h, row * s.padded_width + c);
        const double by_shift = is_given(term.shift) ? dz * element_at(term.shift, {0, 0, h}, c) : 0;
        add_to_element(gradient.table, {0, row, h}, c, by_q + by_shift);
      }
    }
  }
}

TermCost cost_of(const SegmentJob& /*term*/, const AttentionJob& job) {
  return {.per_score = 2, .per_query = 4 * static_cast<double>(job.shape.width), .name = "segments"};
}

}  // namespace phasor::attend
