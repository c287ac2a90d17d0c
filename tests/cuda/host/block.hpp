// SPDX-License-Identifier: Apache-2.0
// The kernels of src/cuda run by the host, thread after thread: what they compute is tested where there is no GPU.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <vector>

#include "cuda/host/team.hpp"
#include "cuda/moves/work.hpp"
#include "cuda/rotary/rotate.hpp"
#include "cuda/rotary/rows.hpp"
#include "cuda/rotary/rows_doubles.hpp"
#include "cuda/rotary/work.hpp"
#include "cuda/specs.hpp"
#include "phasor/result.hpp"

namespace phasor::test {

/// A block of threads as cuda/rotary/rotate.hpp wants it. The last threads go first: nothing may depend on their order.
struct HostBlock {
  int threads;

  template <class T>
  static cuda::PairRow<T> any_row(const cuda::Rows& rows, const cuda::RowPlace& place, std::int64_t pair) {
    return cuda::pair_row<T>(rows, place, pair);
  }
  template <class State>
  struct PerThread {
    std::unique_ptr<std::array<State, cuda::kThreads>> states = std::make_unique<std::array<State, cuda::kThreads>>();
    State& of(int thread) { return (*states)[static_cast<std::size_t>(thread)]; }
  };
  template <class Body>
  void each(const Body& body) {
    for (int thread = threads - 1; thread >= 0; --thread) body(thread, threads);
  }
};

template <DType dtype, Pairing read, Pairing write>
void rotate_on_host(const cuda::RotateWork& work, const cuda::SpecsAt& specs) {
  using T = typename cuda::Element<dtype>::Value;
  const bool vectors = cuda::takes_vectors(work);
  const cuda::LaunchShape shape = cuda::launch_shape(work, vectors);
  std::vector<T> memory(shape.shared_bytes / sizeof(T));
  HostBlock block{shape.threads};
  const cuda::WorkAt at = {&work, {&work.job.rows, nullptr, work.job.rows.from}};
  for (std::int64_t row = 0; row < work.job.batch * work.job.tokens; ++row) {
    if (vectors) {
      constexpr int kWidth = static_cast<int>(cuda::kVectorBytes / bytes_of(dtype));
      cuda::rotate_row<dtype, read, write, kWidth>(cuda::work_of_row(at, specs, row), row, memory.data(), block);
    } else {
      cuda::rotate_row<dtype, read, write, 1>(cuda::work_of_row(at, specs, row), row, memory.data(), block);
    }
  }
}

template <DType dtype>
void rotate_on_host(const cuda::RotateWork& work, const cuda::SpecsAt& specs) {
  constexpr Pairing kHalf = Pairing::half;
  constexpr Pairing kInterleaved = Pairing::interleaved;
  if (work.job.read == kHalf) {
    work.job.write == kHalf ? rotate_on_host<dtype, kHalf, kHalf>(work, specs) : rotate_on_host<dtype, kHalf, kInterleaved>(work, specs);
  } else {
    work.job.write == kHalf ? rotate_on_host<dtype, kInterleaved, kHalf>(work, specs)
                            : rotate_on_host<dtype, kInterleaved, kInterleaved>(work, specs);
  }
}

/// By the kernel of any rotation.
inline void rotate_any_on_host(const cuda::RotateWork& work, const cuda::SpecsAt& specs) {
  if (work.job.dtype == DType::f32) rotate_on_host<DType::f32>(work, specs);
  if (work.job.dtype == DType::f64) rotate_on_host<DType::f64>(work, specs);
  if (work.job.dtype == DType::f16) rotate_on_host<DType::f16>(work, specs);
  if (work.job.dtype == DType::bf16) rotate_on_host<DType::bf16>(work, specs);
}

/// How many calls teams have done, and how many the kernels of keys that move; of those the blocks, and which took the careful way.
inline std::size_t team_calls = 0;
inline std::size_t move_calls = 0;
inline std::size_t moved_blocks = 0;
inline std::size_t careful_moves = 0;

struct HostMover : HostTeam {
  void wait_for_earlier() {}
  template <class T>
  static cuda::PairRow<T> any_row(const cuda::Rows& rows, const cuda::RowPlace& place, std::int64_t pair) {
    return cuda::pair_row<T>(rows, place, pair);
  }
  template <DType dtype, Pairing pairing>
  void carefully(const cuda::Mover<dtype, pairing>& mover) {
    ++careful_moves;
    cuda::move_carefully(mover, *this);
  }
};

template <DType dtype, Pairing pairing>
void move_on_host(const cuda::MoveWork& work) {
  using T = typename cuda::Element<dtype>::Value;
  const auto room = std::make_unique<cuda::MoveRoom<T>>();
  const cuda::MoveGrid grid = cuda::move_grid(work);
  const job::RowSource& rows = work.rotate.job.rows;
  HostMover block{{static_cast<int>(grid.threads)}};
  moved_blocks += std::size_t{grid.batch} * grid.blocks;
  for (unsigned batch = 0; batch < grid.batch; ++batch) {
    for (unsigned x = 0; x < grid.blocks; ++x) {
      const cuda::MoveAt at = cuda::in_grid({&work, {&rows, nullptr, rows.from}, rows.steps, rows.axis_of_pair}, x, batch);
      cuda::move_tokens(cuda::Mover<dtype, pairing>{at, room.get()}, block);
    }
  }
}
template <DType dtype>
void move_on_host(const cuda::MoveWork& work) {
  work.rotate.job.read == Pairing::half ? move_on_host<dtype, Pairing::half>(work) : move_on_host<dtype, Pairing::interleaved>(work);
}
/// With as few tokens a block as a launch of few has and with as many as it may have, in turn, whatever the number of tokens.
inline void move_on_host(const cuda::RotateWork& rotate) {
  cuda::MoveWork work = cuda::move_work(rotate);
  if (move_calls++ % 2 == 0) work.shape.block_tokens = cuda::most_tokens_of_block(work.shape);
  if (rotate.job.dtype == DType::f32) move_on_host<DType::f32>(work);
  if (rotate.job.dtype == DType::f64) move_on_host<DType::f64>(work);
  if (rotate.job.dtype == DType::f16) move_on_host<DType::f16>(work);
  if (rotate.job.dtype == DType::bf16) move_on_host<DType::bf16>(work);
}

inline bool is_empty(const job::RotateJob& job) {
  return job.batch == 0 || job.tokens == 0 || job.head_dim == 0 || job.operands[0].heads + job.operands[1].heads == 0;
}

/// Common calls by teams, of each kind in turn, whatever the number of tokens.
inline Status rotate_on_host(job::RotateJob& job, const Execution& /*execution*/) {
  if (is_empty(job)) return {};
  const cuda::RotateWork work = cuda::work_of(job);
  if (cuda::is_common(work)) {
    turn_on_host(work, cuda::kTeamKinds[team_calls++ % std::size(cuda::kTeamKinds)]);
    return {};
  }
  if (cuda::is_move(work)) {
    move_on_host(work);
    return {};
  }
  rotate_any_on_host(work, {});
  return {};
}

/// How many launches took only some of a call's specs.
inline std::size_t parted_launches = 0;

/// Specs in the room of a parameter, where a kernel finds them. Tables that do not fit stay where they are: this is their device.
inline Status rotate_specs_on_host(job::RotateSpecsJob& job, const Execution& execution) {
  if (is_empty(job.rotate)) return {};
  if (job.specs.count == 0) return rotate_on_host(job.rotate, execution);
  const cuda::RotateWork work = cuda::work_of(job.rotate);
  const auto room = std::make_unique<cuda::TableRoom>();
  const auto stays = [](const auto& /*table*/, std::int64_t /*count*/, const plan::DeviceCopies* /*copies*/) {};
  return cuda::each_part(*room, job.specs, stays, [&](const job::SpecList& some) {
    parted_launches += some.count < job.specs.count ? 1 : 0;
    rotate_any_on_host(work, cuda::specs_in(*room, some));
    return Status();
  });
}

inline Status rerotate_on_host(job::RerotateJob& job, const Execution& execution) {
  job.link();
  return rotate_on_host(job.rotate, execution);
}

struct HostRowSines {
  static cuda::CosSin<float> of(const cuda::Rows& rows, const cuda::RowPlace& place, std::int64_t pair) {
    return cuda::lane_value<float>(rows, place, pair, 0);
  }
};
/// Calls by walks, far ones and short ones in turn.
inline std::size_t row_walk_calls = 0;

template <int run>
void write_walks_on_host(const job::RowsJob& job) {
  const cuda::WalkShape shape = cuda::walk_shape(job.pairs, job.tokens, run);
  for (std::int64_t index = cuda::walk_threads(shape, job.batch); index-- > 0;) {
    cuda::write_walk<run, HostRowSines>(job, {&job.rows}, shape, index);
  }
}

/// Calls by float64, of some tokens a thread and of one in turn.
inline std::size_t row_double_calls = 0;

template <int run>
void write_doubles_on_host(const job::RowsJob& job) {
  const cuda::DoublesGrid grid = cuda::doubles_grid(job, run, 1);
  for (std::int64_t batch = 0; batch < grid.z; ++batch) {
    for (std::int64_t x = grid.x; x-- > 0;) {
      for (std::int64_t pair = job.pairs; pair-- > 0;) {
        const cuda::DoublesThread thread = {pair, x, batch};
        const math::u32 doubts = cuda::write_by_doubles<run>(job, {&job.rows}, thread);
        cuda::each_bit(doubts, [&](int j) { cuda::settle_row<run>(job, {&job.rows}, thread, j); });
      }
    }
  }
}

inline Status rows_on_host(job::RowsJob& job, const Execution& /*execution*/) {
  if (cuda::walks(job)) {
    if ((row_walk_calls + row_double_calls) % 2 == 0) {
      row_walk_calls++ % 2 == 0 ? write_walks_on_host<cuda::kWalk>(job) : write_walks_on_host<1>(job);
    } else {
      row_double_calls++ % 2 == 0 ? write_doubles_on_host<cuda::kDoublesRun>(job) : write_doubles_on_host<1>(job);
    }
    return {};
  }
  const std::int64_t threads = job.batch * job.tokens * job.heads * cuda::row_values(job);
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    job.dtype == DType::f64 ? cuda::write_row_value<double>(job, nullptr, thread) : cuda::write_row_value<float>(job, nullptr, thread);
  }
  return {};
}

}  // namespace phasor::test
