// SPDX-License-Identifier: Apache-2.0
// The kernels of src/cuda that neither rotate nor attend, run by the host, thread after thread, on jobs as kernels find them: with their
// tables packed as in a parameter.
#pragma once

#include <memory>
#include <vector>

#include "cuda/additive/add.hpp"
#include "cuda/additive/quick.hpp"
#include "cuda/additive/walk.hpp"
#include "cuda/bias/fill.hpp"
#include "cuda/bias/gradient.hpp"
#include "cuda/bias/tile.hpp"
#include "cuda/gradient/frequency.hpp"
#include "cuda/gradient/phase.hpp"
#include "cuda/gradient/phase_vectors.hpp"
#include "cuda/gradient/position.hpp"
#include "cuda/host/block.hpp"
#include "cuda/learned/lookup.hpp"
#include "cuda/learned/scatter.hpp"
#include "cuda/learned/vectors.hpp"
#include "cuda/positions/build.hpp"
#include "cuda/positions/temperature.hpp"
#include "cuda/tables.hpp"
#include "cuda/threads.hpp"

namespace phasor::test {

/// A job with its tables in a parameter, and as a kernel makes it of that.
template <class Job>
struct PlacedJob {
  explicit PlacedJob(const Job& given) : parameter(new cuda::Parameter<Job>(given)), job(given) {
    cuda::pack_tables(parameter->tables, parameter->job);
    job = parameter->job;
    cuda::each_table(job, cuda::FindTables{parameter->tables.data()});
  }
  std::unique_ptr<cuda::Parameter<Job>> parameter;
  Job job;
};

struct HostSines {
  template <class T>
  static cuda::CosSin<T> of(const cuda::Rows& rows, std::int64_t pair, std::int64_t axis, const cuda::RowPlace& place) {
    return cuda::sinusoid<T>(rows, pair, axis, place);
  }
};
struct HostLong {
  static double kerple(const plan::BiasSource& bias, std::int64_t head, std::int64_t distance) {
    return plan::kerple_value(bias, head, distance);
  }
  static math::DoubleDouble sandwich_sum(const plan::BiasSource& bias, std::int64_t distance) { return plan::sandwich_sum(bias, distance); }
};

/// body(item), the last first: nothing may depend on their order.
template <class Body>
void each_item(std::int64_t items, const Body& body) {
  for (std::int64_t item = items; item-- > 0;) body(item);
}

/// Calls by walks, far ones and short ones in turn, whatever the number of tokens.
inline std::size_t add_walk_calls = 0;

template <DType dtype, bool words, int run>
void add_walks_on_host(const job::AddJob& job) {
  const cuda::WalkShape shape = cuda::walk_shape(cuda::token_items(job), job.tokens, run);
  each_item(cuda::walk_threads(shape, job.batch),
            [&](std::int64_t index) { cuda::add_walk<dtype, words, run, HostSines>(job, shape, index); });
}
inline void add_walks_on_host(const job::AddJob& job) {
  const bool far = add_walk_calls++ % 2 == 0;
  if (cuda::has_words(job)) {
    far ? add_walks_on_host<DType::f32, true, cuda::kWalk>(job) : add_walks_on_host<DType::f32, true, 1>(job);
  } else {
    far ? add_walks_on_host<DType::f32, false, cuda::kWalk>(job) : add_walks_on_host<DType::f32, false, 1>(job);
  }
}

/// Of 16 bits: calls of each layout, pairs that they had, and those that were settled. Every way to cut them into threads in turn, whatever
/// the number of tokens.
inline std::size_t quick_calls[3] = {};
inline std::size_t quick_pairs_made = 0;
inline std::size_t quick_pairs_settled = 0;

struct HostSettle {
  template <DType dtype, cuda::QuickLayout layout>
  static void pair(const cuda::QuickCall& call, std::int64_t index, int which) {
    ++quick_pairs_settled;
    cuda::settle_pair<dtype, layout>(call, index, which);
  }
};
/// The job as its parameter has it, as on a device: tables are found by their places.
template <DType dtype, cuda::QuickLayout layout>
void add_quick_on_host(const job::AddJob& job, const cuda::Parameter<job::AddJob>& parameter) {
  constexpr int kRuns[] = {1, cuda::kQuickAhead, cuda::kQuickRun};
  const int run = kRuns[quick_calls[static_cast<int>(layout)]++ % 3];
  const cuda::QuickShape shape = cuda::quick_shape(job, layout, run);
  const std::byte* const tables = parameter.tables.data();
  const cuda::QuickCall call = {parameter.job, shape, {&parameter.job.rows, tables}, cuda::found_table(tables, parameter.job.parts)};
  quick_pairs_made += static_cast<std::size_t>(cuda::token_items(job) * job.tokens * job.batch);
  each_item(cuda::quick_threads(shape, job.batch), [&](std::int64_t index) {
    run == 1 ? cuda::add_and_settle<dtype, layout, 1, HostSettle>(call, index)
             : cuda::add_and_settle<dtype, layout, cuda::kQuickAhead, HostSettle>(call, index);
  });
}
template <DType dtype>
void add_quick_on_host(const job::AddJob& job, const cuda::Parameter<job::AddJob>& parameter) {
  using cuda::QuickLayout;
  const QuickLayout layout = cuda::quick_layout(job);
  if (layout == QuickLayout::neighbours) return add_quick_on_host<dtype, QuickLayout::neighbours>(job, parameter);
  if (layout == QuickLayout::halves) return add_quick_on_host<dtype, QuickLayout::halves>(job, parameter);
  add_quick_on_host<dtype, QuickLayout::one>(job, parameter);
}

inline Status add_on_host(job::AddJob& given, const Execution& /*execution*/) {
  const PlacedJob<job::AddJob> placed(given);
  const job::AddJob& job = placed.job;
  const std::int64_t items = cuda::token_items(job);
  if (job.target.out != nullptr && cuda::is_quick(job)) {
    job.target.dtype == DType::f16 ? add_quick_on_host<DType::f16>(job, *placed.parameter)
                                   : add_quick_on_host<DType::bf16>(job, *placed.parameter);
    return {};
  }
  if (job.target.out != nullptr && cuda::walks(job)) {
    add_walks_on_host(job);
    return {};
  }
  each_item(job.target.out == nullptr ? 0 : job.batch * job.tokens * items, [&](std::int64_t item) {
    if (job.target.dtype == DType::f32) cuda::add_item<DType::f32, HostSines>(job, items, item);
    if (job.target.dtype == DType::f64) cuda::add_item<DType::f64, HostSines>(job, items, item);
    if (job.target.dtype == DType::f16) cuda::add_item<DType::f16, HostSines>(job, items, item);
    if (job.target.dtype == DType::bf16) cuda::add_item<DType::bf16, HostSines>(job, items, item);
  });
  return {};
}

/// Calls by vectors.
inline std::size_t lookup_vector_calls = 0;

inline void lookup_vectors_on_host(const job::LookupJob& job) {
  ++lookup_vector_calls;
  const cuda::WalkShape shape = cuda::lookup_shape(job);
  each_item(cuda::walk_threads(shape, job.batch), [&](std::int64_t index) {
    if (job.target.dtype == DType::f32) cuda::lookup_vectors<DType::f32>(job, shape, index);
    if (job.target.dtype == DType::f64) cuda::lookup_vectors<DType::f64>(job, shape, index);
    if (job.target.dtype == DType::f16) cuda::lookup_vectors<DType::f16>(job, shape, index);
    if (job.target.dtype == DType::bf16) cuda::lookup_vectors<DType::bf16>(job, shape, index);
  });
}

inline Status lookup_on_host(job::LookupJob& job, const Execution& /*execution*/) {
  if (job.target.out != nullptr && cuda::takes_vectors(job)) {
    lookup_vectors_on_host(job);
    return {};
  }
  each_item(job.target.out == nullptr ? 0 : cuda::lookup_items(job), [&](std::int64_t item) {
    if (job.target.dtype == DType::f32) cuda::lookup_channel<DType::f32>(job, item);
    if (job.target.dtype == DType::f64) cuda::lookup_channel<DType::f64>(job, item);
    if (job.target.dtype == DType::f16) cuda::lookup_channel<DType::f16>(job, item);
    if (job.target.dtype == DType::bf16) cuda::lookup_channel<DType::bf16>(job, item);
  });
  return {};
}

/// Calls by vectors.
inline std::size_t scatter_vector_calls = 0;

template <DType dtype>
void scatter_on_host(const cuda::ScatterWork& work) {
  const auto room = std::make_unique<cuda::ScatterRoom>();
  HostBlock block{cuda::kScatterThreads};
  scatter_vector_calls += work.vectors ? 1 : 0;
  each_item(cuda::scatter_blocks(work), [&](std::int64_t index) {
    work.vectors ? cuda::scatter_block<dtype, true>(work, index, *room, block)
                 : cuda::scatter_block<dtype, false>(work, index, *room, block);
  });
}
inline Status scatter_on_host(job::ScatterJob& job, const Execution& /*execution*/) {
  if (cuda::is_empty(job.table.shape) || cuda::is_empty(job.gradient.shape)) return {};
  const cuda::ScatterWork work = cuda::work_of(job);
  if (job.gradient.dtype == DType::f32) scatter_on_host<DType::f32>(work);
  if (job.gradient.dtype == DType::f64) scatter_on_host<DType::f64>(work);
  if (job.gradient.dtype == DType::f16) scatter_on_host<DType::f16>(work);
  if (job.gradient.dtype == DType::bf16) scatter_on_host<DType::bf16>(work);
  return {};
}

/// Calls by vectors.
inline std::size_t phase_vector_calls = 0;

template <DType dtype>
void phase_vectors_on_host(const job::PhaseGradientJob& job) {
  ++phase_vector_calls;
  each_item(cuda::phase_vectors<dtype>(job), [&](std::int64_t index) {
    job.interleaved ? cuda::phase_gradient_vector<dtype, Pairing::interleaved>(job, index)
                    : cuda::phase_gradient_vector<dtype, Pairing::half>(job, index);
  });
}

inline Status phase_gradient_on_host(job::PhaseGradientJob& job, const Execution& /*execution*/) {
  if (!cuda::is_empty(job.out.shape) && cuda::takes_vectors(job)) {
    if (job.rotated.dtype == DType::f32) phase_vectors_on_host<DType::f32>(job);
    if (job.rotated.dtype == DType::f64) phase_vectors_on_host<DType::f64>(job);
    if (job.rotated.dtype == DType::f16) phase_vectors_on_host<DType::f16>(job);
    if (job.rotated.dtype == DType::bf16) phase_vectors_on_host<DType::bf16>(job);
    return {};
  }
  each_item(cuda::is_empty(job.out.shape) ? 0 : cuda::phase_items(job), [&](std::int64_t item) { cuda::phase_gradient_item(job, item); });
  return {};
}

inline Status frequency_gradient_on_host(job::FrequencyGradientJob& given, const Execution& /*execution*/) {
  const PlacedJob<job::FrequencyGradientJob> placed(given);
  const auto room = std::make_unique<cuda::FrequencyRoom>();
  HostBlock block{cuda::kFrequencyThreads};
  each_item(cuda::is_empty(given.gradient.shape) ? 0 : cuda::frequency_blocks(given),
            [&](std::int64_t index) { cuda::frequency_gradient_block(placed.job, index, *room, block); });
  return {};
}

inline Status position_gradient_on_host(job::PositionGradientJob& given, const Execution& /*execution*/) {
  const PlacedJob<job::PositionGradientJob> placed(given);
  each_item(cuda::position_items(given), [&](std::int64_t item) {
    given.gradient.dtype == DType::f64 ? cuda::position_gradient_item<double>(placed.job, item)
                                       : cuda::position_gradient_item<float>(placed.job, item);
  });
  return {};
}

/// Blocks of a bias by tiles, and those by vectors.
inline std::size_t tile_calls = 0;
inline std::size_t tile_vector_calls = 0;

template <DType dtype>
void fill_tiles_on_host(const cuda::BiasWork& work) {
  constexpr int kWidth = static_cast<int>(cuda::kVectorBytes / bytes_of(dtype));
  const auto room = std::make_unique<cuda::TileRoom>();
  HostBlock block{cuda::kTileThreads};
  const bool vectors = cuda::takes_vectors(work);
  ++tile_calls;
  tile_vector_calls += vectors ? 1 : 0;
  each_item(cuda::tile_count(work), [&](std::int64_t index) {
    vectors ? cuda::fill_tile<dtype, kWidth, HostLong>(work, index, *room, block)
            : cuda::fill_tile<dtype, 1, HostLong>(work, index, *room, block);
  });
}

inline Status fill_bias_on_host(const cuda::BiasWork& given) {
  PlacedJob<cuda::BiasWork> placed(given);
  cuda::BiasWork& work = placed.job;
  if (cuda::takes_tiles(work)) {
    if (work.out.dtype == DType::f32) fill_tiles_on_host<DType::f32>(work);
    if (work.out.dtype == DType::f64) fill_tiles_on_host<DType::f64>(work);
    if (work.out.dtype == DType::f16) fill_tiles_on_host<DType::f16>(work);
    if (work.out.dtype == DType::bf16) fill_tiles_on_host<DType::bf16>(work);
    return {};
  }
  if (!plan::has_perceptron(work.bias)) {
    each_item(cuda::fill_items(work), [&](std::int64_t item) { cuda::fill_item<HostLong>(work, item); });
    return {};
  }
  const std::int64_t numbers = cuda::read_size(given.bias.mlp);
  work.together = cuda::distances_together(numbers);
  std::vector<double> memory(static_cast<std::size_t>(numbers * work.together));
  HostBlock block{cuda::kPerceptronThreads};
  each_item((cuda::place_count(work) + work.together - 1) / work.together,
            [&](std::int64_t index) { cuda::fill_perceptron_block(work, index, memory.data(), block); });
  return {};
}
inline Status diagonal_on_host(job::DiagonalJob& job, const Execution& /*execution*/) { return fill_bias_on_host(cuda::work_of(job)); }
inline Status block_on_host(job::BlockJob& job, const Execution& /*execution*/) { return fill_bias_on_host(cuda::work_of(job)); }

inline Status bias_gradient_on_host(job::DiagonalGradientJob& given, const Execution& /*execution*/) {
  const PlacedJob<job::DiagonalGradientJob> placed(given);
  const job::DiagonalGradientJob& job = placed.job;
  if (!plan::has_perceptron(job.bias)) {
    cuda::TermRoom room;
    HostBlock block{cuda::kGradientThreads};
    each_item(job.sum.shape[3], [&](std::int64_t parameter) { cuda::gradient_block(job, parameter, room, block); });
    return {};
  }
  const std::int64_t numbers = cuda::backward_size(given.bias.mlp, job.diagonal.shape[1]);
  const std::int64_t together = cuda::distances_together(numbers);
  std::vector<double> memory(static_cast<std::size_t>(numbers * together));
  double sums[cuda::kPerceptronThreads];
  HostBlock block{cuda::kPerceptronThreads};
  each_item((job.sum.shape[3] + cuda::kPerceptronThreads - 1) / cuda::kPerceptronThreads,
            [&](std::int64_t index) { cuda::perceptron_gradient_block(job, index, {memory.data(), together, sums}, block); });
  return {};
}

inline Status temperature_on_host(job::TemperatureJob& job, const Execution& /*execution*/) {
  each_item(cuda::temperature_items(job), [&](std::int64_t item) { cuda::temperature_item(job, item); });
  return {};
}

inline Status build_on_host(job::BuildJob& job, const Execution& /*execution*/) {
  each_item(cuda::build_items(job), [&](std::int64_t item) { cuda::build_item(job, item); });
  return {};
}

}  // namespace phasor::test
