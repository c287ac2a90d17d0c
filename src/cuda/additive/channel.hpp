// SPDX-License-Identifier: Apache-2.0
// One channel of a token that an encoding is added to, or that keeps its bits.
#pragma once

#include "cuda/rotary/element.hpp"
#include "job/additive.hpp"

namespace phasor::cuda {

using std::int64_t;

/// A token's channels: read (null: not at all) and written.
template <DType dtype>
struct TokenChannels {
  using E = Element<dtype>;
  const typename E::Storage* in;
  typename E::Storage* out;

  PHASOR_HD void add(int64_t channel, typename E::Value value) const {
    out[channel] = E::narrow(in == nullptr ? value : E::widen(in[channel]) + value);
  }
  /// Its encoding is 0.
  PHASOR_HD void keep(int64_t channel) const { out[channel] = in == nullptr ? typename E::Storage{} : in[channel]; }
};

template <DType dtype>
PHASOR_HD inline TokenChannels<dtype> channels_of(const job::AddTarget& target, int64_t batch, int64_t token) {
  using Storage = typename Element<dtype>::Storage;
  const std::byte* in = target.in == nullptr ? nullptr : target.in + batch * target.in_strides[0] + token * target.in_strides[1];
  return {reinterpret_cast<const Storage*>(in),
          reinterpret_cast<Storage*>(target.out + batch * target.out_strides[0] + token * target.out_strides[1])};
}

}  // namespace phasor::cuda
