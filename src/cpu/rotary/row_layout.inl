// SPDX-License-Identifier: Apache-2.0
// Rows ready for heads: the buffers of a block, what of a row turns, and a row laid out for registers (RegisterLayout).

/// A block of rows on the stack, and those of the tokens turned together, laid out for registers (RegisterLayout).
template <class T>
struct RowBuffers {
  alignas(64) T cos[kBlockValues];
  alignas(64) T sin[kBlockValues];
  alignas(64) T second_cos[kBlockValues];  // lane 1 where the lanes differ
  alignas(64) T second_sin[kBlockValues];
  alignas(64) T cos_lanes[2 * kBlockValues];
  std::byte apart[2048];  // without it both would fall into the same sets of an L1 cache whose ways hold 16 KiB
  alignas(64) T sin_lanes[2 * kBlockValues];
};

/// Whether a sine is 0: then its pair may be one to leave alone.
template <class T>
bool has_zero(const T* sin, std::int64_t count) {
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto zero = hn::MaskFromVec(hn::Zero(d));
  for (; i + lanes <= count; i += lanes) zero = hn::Or(zero, hn::Eq(hn::LoadU(d, sin + i), hn::Zero(d)));
  if (!hn::AllFalse(d, zero)) return true;
#endif
  return std::find(sin + i, sin + count, T{0}) != sin + count;
}

/// Whether some pair's first lane is left alone (then both may be: rotate_one looks).
template <class T>
bool has_identity(const Row<T>& row, std::int64_t pairs) {
  if (!has_zero(row.sin[0], pairs)) return false;
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (math::is_identity(row.cos[0][i], row.sin[0][i])) return true;
  }
  return false;
}

/// Pairs before the trailing ones that are left alone.
template <class T>
std::int64_t pairs_to_turn(const Row<T>& row, std::int64_t pairs) {
  while (pairs > 0 && math::is_identity(row.cos[0][pairs - 1], row.sin[0][pairs - 1]) &&
         math::is_identity(row.cos[1][pairs - 1], row.sin[1][pairs - 1])) {
    --pairs;
  }
  return pairs;
}

template <class T>
void spread_lanes(const Row<T>& row, std::int64_t pairs, T* cos_lanes, T* sin_lanes) {
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= pairs; i += lanes) {
    hn::StoreInterleaved2(hn::LoadU(d, row.cos[0] + i), hn::LoadU(d, row.cos[1] + i), d, cos_lanes + 2 * i);
    hn::StoreInterleaved2(hn::Neg(hn::LoadU(d, row.sin[0] + i)), hn::LoadU(d, row.sin[1] + i), d, sin_lanes + 2 * i);
  }
#endif
  for (; i < pairs; ++i) {
    cos_lanes[2 * i] = row.cos[0][i];
    cos_lanes[2 * i + 1] = row.cos[1][i];
    sin_lanes[2 * i] = -row.sin[0][i];
    sin_lanes[2 * i + 1] = row.sin[1][i];
  }
}

/// Even pairs first, odd pairs kBlockValues further on.
inline void separate_pairs(const float* from, std::int64_t pairs, float* to) {
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + 2 * lanes <= pairs; i += 2 * lanes) {
    hn::Vec<decltype(d)> even;
    hn::Vec<decltype(d)> odd;
    hn::LoadInterleaved2(d, from + i, even, odd);
    hn::StoreU(even, d, to + i / 2);
    hn::StoreU(odd, d, to + kBlockValues + i / 2);
  }
#endif
  for (; i + 2 <= pairs; i += 2) {
    to[i / 2] = from[i];
    to[kBlockValues + i / 2] = from[i + 1];
  }
}
