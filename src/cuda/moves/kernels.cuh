// SPDX-License-Identifier: Apache-2.0
// The kernels of keys that move. They are compiled beside those of any rotation (cuda/rotary/kernels.cuh), whose sines by the definition
// they share: those take nvcc long.
#pragma once

#include "cuda/dependent.cuh"
#include "cuda/moves/move.hpp"
#include "cuda/moves/work.hpp"
#include "cuda/rotary/kernels.cuh"
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {

struct MoveParameter {
  MoveWork work;
  job::RowSource from;  // its tables are those of the work's rows
  alignas(16) std::byte tables[kTeamTableBytes];
};

template <DType dtype, Pairing pairing>
__device__ __noinline__ void move_out_of_line(Mover<dtype, pairing> mover);

struct DeviceMover : DeviceBlockTeam {
  __device__ void wait_for_earlier() { cuda::wait_for_earlier(); }
  template <class T>
  static __device__ PairRow<T> any_row(const Rows& rows, const RowPlace& place, std::int64_t pair) {
    return DeviceBlock::any_row<T>(rows, place, pair);
  }
  template <DType dtype, Pairing pairing>
  __device__ void carefully(const Mover<dtype, pairing>& mover) {
    move_out_of_line<dtype, pairing>(mover);
  }
};
template <DType dtype, Pairing pairing>
__device__ __noinline__ void move_out_of_line(Mover<dtype, pairing> mover) {
  DeviceMover block;
  move_carefully(mover, block);
}

template <DType dtype, Pairing pairing>
__global__ void __launch_bounds__(kMoveThreads, dtype == DType::f64 ? 1 : kMoveBlocks)
    move_keys(const __grid_constant__ MoveParameter parameter) {
  using T = typename Element<dtype>::Value;
  __shared__ __align__(16) unsigned char memory[sizeof(MoveRoom<T>)];
  let_later_begin();
  // As in turn_by_teams: each lane reads another step.
  const std::byte* tables = parameter.tables;
  asm("" : "+l"(tables));
  const auto* const steps = reinterpret_cast<const math::Step*>(tables);
  const auto* const axes = reinterpret_cast<const std::uint8_t*>(steps + parameter.work.rotate.job.rows.step_count);
  const Rows rows = {&parameter.work.rotate.job.rows, tables, &parameter.from};
  const Mover<dtype, pairing> mover = {in_grid({&parameter.work, rows, steps, axes}, blockIdx.x, blockIdx.z),
                                       reinterpret_cast<MoveRoom<T>*>(memory)};
  DeviceMover block;
  move_tokens(mover, block);
}

template <DType dtype>
const void* move_kernel(Pairing pairing) {
  return pairing == Pairing::half ? reinterpret_cast<const void*>(&move_keys<dtype, Pairing::half>)
                                  : reinterpret_cast<const void*>(&move_keys<dtype, Pairing::interleaved>);
}

const void* move_kernel_f32(Pairing pairing);
const void* move_kernel_f64(Pairing pairing);
const void* move_kernel_f16(Pairing pairing);
const void* move_kernel_bf16(Pairing pairing);

}  // namespace phasor::cuda
