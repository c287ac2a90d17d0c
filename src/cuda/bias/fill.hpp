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
PHASOR_HD inline BiasPlace place_of(const BiasWork& work, int64_t n) {
  if (work.is_diagonal) return {work.first_distance + n, work.query_position, n};
  const int64_t key = n % work.out.shape[3];
  const int64_t query = n / work.out.shape[3] % work.out.shape[2];
  const int64_t batch = n / work.out.shape[3] / work.out.shape[2];
  const bool by_key = work.bias.scheme == plan::BiasSource::Scheme::alibi && work.bias.form == AlibiForm::key_position;
  const int64_t at = by_key ? 0 : whole_position(work.queries, 0, batch, query);  // then every query stands at 0
  const int64_t index = batch * work.out.strides[0] + query * work.out.strides[2] + key;
  return {at - whole_position(work.keys, 0, batch, key), at, index};
}

/// Rounded once.
PHASOR_HD inline void store_bias(const BiasWork& work, int64_t head, int64_t index, double value) {
  const int64_t at = head * work.out.strides[1] + index;
  switch (work.out.dtype) {
    case DType::f64:
      static_cast<double*>(work.out.data)[at] = value;
      return;
    case DType::f32:
      static_cast<float*>(work.out.data)[at] = job::element_of<float>(value);
      return;
    case DType::f16:
      static_cast<Float16*>(work.out.data)[at] = job::element_of<Float16>(value);
      return;
    case DType::bf16:
      static_cast<BFloat16*>(work.out.data)[at] = job::element_of<BFloat16>(value);
  }
}

/// A position that is no place of a window is the caller's fault; it reads nothing, and shows.
PHASOR_HD inline double table_bias(const plan::BiasSource& bias, int64_t head, int64_t distance) {
  if (bias.table == nullptr) return 0;
  const int64_t row = plan::row_of(bias.row, distance);
  return row < 0 ? math::bit_cast<double>(math::u64{0x7ff8} << 48) : bias.table[head * bias.rows + row];
}

/// The schemes that are long out of line: Long::kerple and Long::sandwich_sum are plan's.
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
  const int64_t spec_head = work.first_head + head;
  double value = 0;
  if (bias.scheme == plan::BiasSource::Scheme::alibi) {
    value = plan::alibi_value(bias, spec_head, place.distance);
  } else if (bias.scheme == plan::BiasSource::Scheme::kerple) {
    value = Long::kerple(bias, spec_head, place.distance);
  } else {
    value = table_bias(bias, spec_head, place.distance);
  }
  store_bias(work, head, place.index, value);
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
