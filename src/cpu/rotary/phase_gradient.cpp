// SPDX-License-Identifier: Apache-2.0
// The loops: heads inside tokens, pairs inside heads, so that the innermost reads and writes neighbours.
#include "cpu/rotary/phase_gradient.hpp"

#include <algorithm>

#include "job/element.hpp"
#include "math/phase/gradient.hpp"

namespace phasor::cpu {
namespace {

/// Pairs whose sums over heads are kept on the stack.
constexpr std::int64_t kBlock = 256;

struct Block {
  std::int64_t first;  // pair
  std::int64_t count;  // within one segment
};

std::int64_t index_of(const ConstTensorView& v, std::int64_t b, std::int64_t t, std::int64_t h) {
  return b * v.strides[0] + t * v.strides[1] + h * v.strides[2];
}

/// sums += the phase gradients of one head's block. `y` and `g` begin at the head.
template <class T>
void add_block(const job::PhaseGradientJob& job, const T* y, const T* g, const Block& block, double* sums) {
  using job::number_of;
  const std::int64_t step = job.interleaved ? 2 : 1;
  const std::int64_t lane = job.interleaved ? 1 : job.segment_pairs;
  // Pair j of segment s begins at 2 s (pairs of a segment) + j: the first pair's number, and once more the pairs of the segments before.
  const std::int64_t first =
      job.offset + (job.interleaved ? 2 * block.first : block.first + block.first / job.segment_pairs * job.segment_pairs);
  y += first;
  g += first;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const std::int64_t c = i * step;
    sums[i] += math::phase_gradient(number_of(y[c]), number_of(y[c + lane]), number_of(g[c]), number_of(g[c + lane]));
  }
}

template <class Out>
void store_block(const job::PhaseGradientJob& job, const double* sums, std::int64_t count, Out* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double sum = job.clockwise ? -sums[i] : sums[i];
    to[i] = static_cast<Out>(job.add ? static_cast<double>(to[i]) + sum : sum);
  }
}

/// One head of `out` at one token: the heads [first, end) of what was rotated.
template <class T, class Out>
void fill_head(const job::PhaseGradientJob& job, std::int64_t b, std::int64_t t, std::int64_t out_head) {
  const bool own = job.out.shape[2] != 1;
  const std::int64_t first = own ? out_head : 0;
  const std::int64_t end = own ? out_head + 1 : job.rotated.shape[2];
  Out* to = static_cast<Out*>(job.out.data) + index_of(job.out, b, t, out_head);
  for (Block block = {0, 0}; block.first < job.pairs; block.first += block.count) {
    block.count = std::min(kBlock, job.segment_pairs - block.first % job.segment_pairs);
    double sums[kBlock];
    std::fill_n(sums, block.count, 0.0);
    for (std::int64_t h = first; h < end; ++h) {
      add_block(job, static_cast<const T*>(job.rotated.data) + index_of(job.rotated, b, t, h),
                static_cast<const T*>(job.gradient.data) + index_of(job.gradient, b, t, h), block, sums);
    }
    store_block(job, sums, block.count, to + block.first);
  }
}

/// body(b, t) for every row of a task.
template <class Job, class Body>
void each_row(const Running<Job>& run, std::int64_t task, const Body& body) {
  const Job& job = run.job;
  const TaskGrid& grid = run.grid;
  const std::int64_t first_batch = task / grid.row_blocks * grid.batches_per_task;
  const std::int64_t first_token = task % grid.row_blocks * grid.rows_per_task;
  for (std::int64_t b = first_batch; b < std::min(first_batch + grid.batches_per_task, job.batch); ++b) {
    for (std::int64_t t = first_token; t < std::min(first_token + grid.rows_per_task, job.tokens); ++t) body(b, t);
  }
}

double position_at(const job::PositionSource& p, std::int64_t axis, std::int64_t b, std::int64_t t) {
  if (p.data == nullptr) {
    return static_cast<double>(static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(t)));
  }
  const std::int64_t i = axis * p.axis_stride + b * p.batch_stride + t * p.token_stride;
  if (p.type == PositionType::f64) return static_cast<const double*>(p.data)[i];
  if (p.type == PositionType::i32) return static_cast<const std::int32_t*>(p.data)[i];
  return static_cast<double>(static_cast<const std::int64_t*>(p.data)[i]);
}

template <class T>
void add_frequencies(const job::FrequencyGradientJob& job, std::int64_t token, double* sums) {
  const job::LadderSource& ladder = job.ladder;
  const Extents& shape = job.gradient.shape;
  const std::int64_t b = token / shape[1];
  const std::int64_t t = token % shape[1];
  double position[job::kMaxAxes];
  for (std::int64_t a = 0; a < ladder.axes; ++a) position[a] = position_at(job.positions, a, b, t);
  for (std::int64_t h = 0; h < shape[2]; ++h) {
    const T* row = static_cast<const T*>(job.gradient.data) + index_of(job.gradient, b, t, h);
    if (ladder.axis_of_pair != nullptr) {
      const std::uint8_t* axis = ladder.axis_of_pair;
      for (std::int64_t i = 0; i < shape[3]; ++i) sums[i] += math::chained(position[axis[i]], row[i]);
      continue;
    }
    for (std::int64_t a = 0; a < ladder.axes; ++a) {  // (axes, heads, pairs)
      double* to = sums + (a * ladder.heads + (ladder.heads == 1 ? 0 : h)) * shape[3];
      for (std::int64_t i = 0; i < shape[3]; ++i) to[i] += math::chained(position[a], row[i]);
    }
  }
}

/// sums[axis] += what the heads of one token give.
template <class T>
void add_positions(const job::PositionGradientJob& job, std::int64_t b, std::int64_t t, double* sums) {
  const job::LadderSource& ladder = job.ladder;
  const std::int64_t pairs = job.gradient.shape[3];
  const bool one = job.out.shape[0] == 1;  // one position is that of every axis
  for (std::int64_t h = 0; h < job.gradient.shape[2]; ++h) {
    const T* row = static_cast<const T*>(job.gradient.data) + index_of(job.gradient, b, t, h);
    if (ladder.axis_of_pair != nullptr && !one) {
      const std::uint8_t* axis = ladder.axis_of_pair;
      for (std::int64_t i = 0; i < pairs; ++i) sums[axis[i]] += math::chained(ladder.frequencies[i], row[i]);
      continue;
    }
    const std::int64_t ladders = ladder.axis_of_pair == nullptr ? ladder.axes : 1;
    for (std::int64_t a = 0; a < ladders; ++a) {  // (axes, heads, pairs)
      const double* frequencies = ladder.frequencies + (a * ladder.heads + (ladder.heads == 1 ? 0 : h)) * pairs;
      sums[one ? 0 : a] += math::position_gradient(frequencies, row, pairs);
    }
  }
}

template <class T>
void fill_position(const job::PositionGradientJob& job, std::int64_t b, std::int64_t t) {
  const bool shared = job.out.shape[1] == 1;
  double sums[job::kMaxAxes] = {};
  for (std::int64_t from = shared ? 0 : b; from < (shared ? job.gradient.shape[0] : b + 1); ++from) add_positions<T>(job, from, t, sums);
  double* out = static_cast<double*>(job.out.data) + b * job.out.strides[1] + t * job.out.strides[2];
  for (std::int64_t a = 0; a < job.out.shape[0]; ++a) out[a * job.out.strides[0]] = sums[a];
}

/// body(Tag of float or double).
template <class Body>
void with_float(DType dtype, const Body& body) {
  if (dtype == DType::f64) return body(job::ElementTag<double>());
  return body(job::ElementTag<float>());
}

}  // namespace

void phase_gradient(const Running<job::PhaseGradientJob>& run, std::int64_t task) {
  const job::PhaseGradientJob& job = run.job;
  job::with_element(job.rotated.dtype, [&](auto element) {
    with_float(job.out.dtype, [&](auto out) {
      using T = typename decltype(element)::type;
      using Out = typename decltype(out)::type;
      each_row(run, task, [&](std::int64_t b, std::int64_t t) {
        for (std::int64_t h = 0; h < job.out.shape[2]; ++h) fill_head<T, Out>(job, b, t, h);
      });
    });
  });
}

void frequency_gradient(const job::FrequencyGradientJob& job, std::int64_t part, double* sums) {
  const std::int64_t first = part * job::kGradientTokens;
  const std::int64_t end = std::min(first + job::kGradientTokens, job.gradient.shape[0] * job.gradient.shape[1]);
  with_float(job.gradient.dtype, [&](auto element) {
    for (std::int64_t token = first; token < end; ++token) add_frequencies<typename decltype(element)::type>(job, token, sums);
  });
}

void position_gradient(const Running<job::PositionGradientJob>& run, std::int64_t task) {
  const job::PositionGradientJob& job = run.job;
  with_float(job.gradient.dtype, [&](auto element) {
    each_row(run, task, [&](std::int64_t b, std::int64_t t) { fill_position<typename decltype(element)::type>(job, b, t); });
  });
}

}  // namespace phasor::cpu
