// SPDX-License-Identifier: Apache-2.0
// Sinusoids added to tokens: one pair of one token, or the channel behind the pairs of an odd width, which is what a thread does.
#pragma once

#include "cuda/additive/channel.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/row_value.hpp"
#include "job/additive.hpp"

namespace phasor::cuda {

/// Channels that the pairs of a part have, and whether one is behind them.
PHASOR_HD inline int64_t used_channels(const spec::AxisPart& part) { return 2 * part.pairs - (part.unpaired ? 1 : 0); }
PHASOR_HD inline int64_t part_items(const spec::AxisPart& part) { return part.pairs + (part.width - used_channels(part)); }

/// Items of a token: the pairs of every part, and the channels behind them.
PHASOR_HD inline int64_t token_items(const job::AddJob& job) {
  int64_t items = 0;
  for (int64_t p = 0; p < job.part_count; ++p) items += part_items(job.parts[p]);
  return items;
}

PHASOR_HD inline bool is_zero_position(const job::AddJob& job, int64_t axis, int64_t batch, int64_t token) {
  const job::PositionSource& p = job.rows.positions;
  if (!job.has_zero) return false;
  if (!has_fractions(p)) return whole_position(p, axis, batch, token) == job.zero_position;
  return fractional_position(p, axis, batch, token) == static_cast<double>(job.zero_position);
}

/// The cosine and sine of a pair at a token's position on an axis. Long: kernels call it out of line.
template <class T>
PHASOR_HD inline CosSin<T> sinusoid(const Rows& rows, int64_t pair, int64_t axis, const RowPlace& place) {
  const job::PositionSource& positions = rows->positions;
  if (has_fractions(positions)) {
    return phase_value<T>(rows, RowPositions<double>{{fractional_position(positions, axis, place.batch, place.token)}}, pair, {});
  }
  return phase_value<T>(rows, RowPositions<int64_t>{{whole_position(positions, axis, place.batch, place.token)}}, pair, {});
}

/// Sines::of<T> is sinusoid<T>.
template <DType dtype, class Sines>
PHASOR_HD inline void add_pair(const job::AddJob& job, const spec::AxisPart& part, int64_t i, const RowPlace& place) {
  using T = typename Element<dtype>::Value;
  const TokenChannels<dtype> x = channels_of<dtype>(job.target, place.batch, place.token);
  const plan::PairChannels at = plan::channels_of(part, job.order, i);
  const bool half = part.unpaired && i + 1 == part.pairs;
  const bool sin_first = job.order != SinusoidOrder::cos_sin;
  const bool has_sin = !half || sin_first;
  const bool has_cos = !half || !sin_first;
  if (is_zero_position(job, part.axis, place.batch, place.token)) {
    if (has_sin) x.keep(at.sin);
    if (has_cos) x.keep(at.cos);
    return;
  }
  const CosSin<T> value = Sines::template of<T>({&job.rows}, part.pair + i, part.axis, place);
  if (has_sin) x.add(at.sin, job.negative ? -value.sin : value.sin);
  if (has_cos) x.add(at.cos, job.negative ? -value.cos : value.cos);
}

/// Item `item` of all tokens. The job's tables are where its pointers say.
template <DType dtype, class Sines>
PHASOR_HD inline void add_item(const job::AddJob& job, int64_t items, int64_t item) {
  const RowPlace place = {item / items / job.tokens, item / items % job.tokens};
  int64_t i = item % items;
  const spec::AxisPart* part = job.parts;
  for (; i >= part_items(*part); ++part) i -= part_items(*part);
  if (i < part->pairs) return add_pair<dtype, Sines>(job, *part, i, place);
  channels_of<dtype>(job.target, place.batch, place.token).keep(part->channel + used_channels(*part) + i - part->pairs);
}

}  // namespace phasor::cuda
