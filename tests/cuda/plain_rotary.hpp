// SPDX-License-Identifier: Apache-2.0
// The plainest rotation that a GPU can run: one thread per pair, from the job as the CPU kernels get it. Not a backend: it shows that the
// formulas of src/math and the rules of src/cpu need no change on a device. The same body runs on the host, so it is tested without a GPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/rotary/element.hpp"
#include "job/rotary.hpp"
#include "math/sincos.hpp"

namespace proof {

using phasor::DType;
using phasor::job::RotateJob;
using phasor::job::RowSource;
namespace math = phasor::math;

template <DType dtype>
using Storage = typename phasor::cuda::Element<dtype>::Storage;
template <DType dtype>
using Value = typename phasor::cuda::Element<dtype>::Value;

/// Cosine and sine of one pair at one position, the sign of the sine applied. A row at position 0 and the trailing pairs that never turn
/// have the sine +0 whatever its sign, as in src/cpu/rotary/rows.inl.
template <class T, class Position>
PHASOR_HD inline math::Pair<T> row_value(const RowSource& rows, std::int64_t pair, Position position) {
  bool sound = true;
  if constexpr (std::is_same_v<Position, double>) sound = math::is_position(position);
  if (sound && (position == 0 || pair >= rows.turning_pairs)) return {static_cast<T>(rows.amplitude), T{0}};
  math::Pair<T> r{};
  math::sincos(rows.steps[pair], position, rows.amplitude, r.x, r.y);
  return {r.x, r.y * static_cast<T>(rows.sine_sign)};
}

template <class T>
PHASOR_HD inline math::Pair<T> row_value_at(const RowSource& rows, std::int64_t pair, std::int64_t batch, std::int64_t token) {
  const phasor::job::PositionSource& p = rows.positions;
  const std::int64_t index = batch * p.batch_stride + token * p.token_stride;
  if (p.data == nullptr) {
    return row_value<T>(rows, pair, static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(token)));
  }
  if (p.type == phasor::PositionType::f64) return row_value<T>(rows, pair, static_cast<const double*>(p.data)[index]);
  if (p.type == phasor::PositionType::i32) return row_value<T>(rows, pair, std::int64_t{static_cast<const std::int32_t*>(p.data)[index]});
  return row_value<T>(rows, pair, static_cast<const std::int64_t*>(p.data)[index]);
}

PHASOR_HD inline math::Pair<std::int64_t> channels_of(phasor::Pairing pairing, std::int64_t pair, std::int64_t half) {
  if (pairing == phasor::Pairing::half) return {pair, pair + half};
  return {2 * pair, 2 * pair + 1};
}

/// Threads that one operand needs: one thread per pair, and one for each channel that is only copied.
PHASOR_HD inline std::int64_t threads_of(const RotateJob& job, int operand) {
  return job.batch * job.tokens * job.operands[operand].heads * (job.head_dim - job.pairs);
}

/// One thread's work. `in` and `out` must be apart: across pairings a thread reads what another one writes.
template <DType dtype>
PHASOR_HD inline void rotate_thread(const RotateJob& job, int operand, std::int64_t thread) {
  using T = Value<dtype>;
  using E = phasor::cuda::Element<dtype>;
  const phasor::job::Operand& x = job.operands[operand];
  const std::int64_t a_head = job.head_dim - job.pairs;
  const std::int64_t item = thread % a_head;
  const std::int64_t head = thread / a_head % x.heads;
  const std::int64_t token = thread / a_head / x.heads % job.tokens;
  const std::int64_t batch = thread / a_head / x.heads / job.tokens;
  const auto* in =
      reinterpret_cast<const Storage<dtype>*>(x.in + batch * x.in_strides[0] + token * x.in_strides[1] + head * x.in_strides[2]);
  auto* out = reinterpret_cast<Storage<dtype>*>(x.out + batch * x.out_strides[0] + token * x.out_strides[1] + head * x.out_strides[2]);
  if (item >= job.pairs) {
    const std::int64_t rest = item - job.pairs;
    const std::int64_t channel = rest < job.offset ? rest : rest + 2 * job.pairs;
    out[channel] = in[channel];
    return;
  }
  const math::Pair<std::int64_t> from = channels_of(job.read, item, job.pairs);
  const math::Pair<std::int64_t> to = channels_of(job.write, item, job.pairs);
  const math::Pair<T> row = row_value_at<T>(job.rows, item, batch, token);
  const Storage<dtype> first = in[job.offset + from.x];
  const Storage<dtype> second = in[job.offset + from.y];
  if (math::is_identity(row.x, row.y)) {
    out[job.offset + to.x] = first;
    out[job.offset + to.y] = second;
    return;
  }
  const math::Pair<T> turned = math::rotate<T>({E::widen(first), E::widen(second)}, {row.x, row.x}, {row.y, row.y});
  out[job.offset + to.x] = E::narrow(turned.x);
  out[job.offset + to.y] = E::narrow(turned.y);
}

}  // namespace proof
