// SPDX-License-Identifier: Apache-2.0
// Biases written: one place and head, which is what a thread does; with a perceptron some places together, which is what a block does.
#pragma once

#include "cuda/bias/perceptron.hpp"
#include "cuda/bias/work.hpp"
#include "job/element.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::cuda {

struct BiasPlace {
  int64_t distance;
  int64_t query;
  int64_t index;  // of head 0 in `out`
};
/// ALiBi's form whose value is the key's: every query stands at 0.
PHASOR_HD inline bool is_by_key(const BiasWork& work) {
  return work.bias.scheme == plan::BiasSource::Scheme::alibi && work.bias.form == AlibiForm::key_position;
}
PHASOR_HD inline int64_t query_at(const BiasWork& work, int64_t batch, int64_t query) {
  return is_by_key(work) ? 0 : whole_position(work.queries, 0, batch, query);
}
PHASOR_HD inline BiasPlace place_of(const BiasWork& work, int64_t n) {
  if (work.is_diagonal) return {work.first_distance + n, work.query_position, n};
  const int64_t key = n % work.out.shape[3];
  const int64_t query = n / work.out.shape[3] % work.out.shape[2];
  const int64_t batch = n / work.out.shape[3] / work.out.shape[2];
  const int64_t at = query_at(work, batch, query);
  const int64_t index = batch * work.out.strides[0] + query * work.out.strides[2] + key;
  return {at - whole_position(work.keys, 0, batch, key), at, index};
}

/// Rounded once, as it is stored.
template <class Storage>
PHASOR_HD inline Storage stored(double value, DType dtype) {
  if constexpr (sizeof(Storage) == 2) {
    return dtype == DType::f16 ? job::element_of<Float16>(value).bits : job::element_of<BFloat16>(value).bits;
  } else {
    return job::element_of<Storage>(value);
  }
}
PHASOR_HD inline void store_bias(const BiasWork& work, int64_t head, int64_t index, double value) {
  const int64_t at = head * work.out.strides[1] + index;
  const DType dtype = work.out.dtype;
  if (dtype == DType::f64) {
    static_cast<double*>(work.out.data)[at] = value;
  } else if (dtype == DType::f32) {
    static_cast<float*>(work.out.data)[at] = stored<float>(value, dtype);
  } else {
    static_cast<std::uint16_t*>(work.out.data)[at] = stored<std::uint16_t>(value, dtype);
  }
}

/// A position that is no place of a window is the caller's fault; it reads nothing, and shows.
PHASOR_HD inline double table_bias(const plan::BiasSource& bias, int64_t head, int64_t distance) {
  if (bias.table == nullptr) return 0;
  const int64_t row = plan::row_of(bias.row, distance);
  return row < 0 ? math::bit_cast<double>(math::u64{0x7ff8} << 48) : bias.table[head * bias.rows + row];
}

/// One head of the schemes without a perceptron or a sum over pairs. Those that are long are out of line: Long::kerple and
/// Long::sandwich_sum are plan's.
template <class Long>
PHASOR_HD inline double bias_value(const plan::BiasSource& bias, int64_t head, int64_t distance) {
  if (bias.scheme == plan::BiasSource::Scheme::alibi) return plan::alibi_value(bias, head, distance);
  if (bias.scheme == plan::BiasSource::Scheme::kerple) return Long::kerple(bias, head, distance);
  return table_bias(bias, head, distance);
}

template <class Long>
PHASOR_HD inline void fill_item(const BiasWork& work, int64_t item) {
  const plan::BiasSource& bias = work.bias;
  const int64_t places = place_count(work);
  const BiasPlace place = place_of(work, item % places);
  if (takes_all_heads(work)) {
    const math::DoubleDouble sum = Long::sandwich_sum(bias, place.distance);
    for (int64_t head = 0; head < work.out.shape[1]; ++head) {
      store_bias(work, head, place.index, plan::sandwich_value(sum, work.first_head + head));
    }
    return;
  }
  const int64_t head = item / places;
  store_bias(work, head, place.index, bias_value<Long>(bias, work.first_head + head, place.distance));
}

/// The places from index * together on.
template <class Block>
PHASOR_HD inline void fill_perceptron_block(const BiasWork& work, int64_t index, double* memory, Block& block) {
  const int64_t first = index * work.together;
  const int64_t rest = place_count(work) - first;
  const Perceptrons mlp(work.bias, memory, rest < work.together ? rest : work.together);
  mlp.forward(block, [&](int64_t d) {
    const BiasPlace place = place_of(work, first + d);
    return plan::perceptron_inputs(work.bias, place.distance, plan::fire_scale(work.bias.fire, place.query));
  });
  block.each([&](int thread, int threads) {
    for (int64_t i = thread; i < mlp.distances() * work.out.shape[1]; i += threads) {
      const int64_t d = i % mlp.distances();
      const int64_t head = i / mlp.distances();
      store_bias(work, head, place_of(work, first + d).index, plan::perceptron_value(work.bias, mlp.output(d, work.first_head + head)));
    }
  });
}

}  // namespace phasor::cuda
