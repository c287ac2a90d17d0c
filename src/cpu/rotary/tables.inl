// SPDX-License-Identifier: Apache-2.0
// Rows from given tables of cosines and sines, and values of learned tables: widened, a NaN made plain.

/// One value of a table, widened; a NaN becomes the plain one, without the low bits that split_bf16's kernels must not meet.
template <class T>
T table_value(const std::byte* data, DType dtype, std::int64_t index) {
  if (dtype == DType::f64) return static_cast<T>(reinterpret_cast<const double*>(data)[index]);
  const math::One<float> d;
  float value = 0;
  if (dtype == DType::f32) {
    value = reinterpret_cast<const float*>(data)[index];
  } else {
    const math::u32 bits = reinterpret_cast<const std::uint16_t*>(data)[index];
    value = dtype == DType::f16 ? math::widen_f16(d, bits) : math::widen_bf16(d, bits);
  }
  return value != value ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(value);
}

/// Values of a table from `index` on, `stride` apart, times `sign`.
template <class T>
struct TableRow {
  const std::byte* data;
  DType dtype;
  std::int64_t index;
  std::int64_t stride;
  T sign;
};

#if PHASOR_LANES

/// Contiguous values of a 16- or 32-bit table, times `sign`, as many as fill registers; returns how many.
template <DType dtype>
inline std::int64_t widen_values(const TableRow<float>& from, std::int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, from.sign);
  const auto plain_nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const std::int64_t index = from.index;
  const std::byte* data = from.data;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> value;
    if constexpr (dtype == DType::f32) {
      value = hn::LoadU(d, reinterpret_cast<const float*>(data) + index + i);
    } else {
      const hn::Rebind<std::uint16_t, decltype(d)> d16;
      const auto bits =
          hn::PromoteTo(hn::RebindToUnsigned<decltype(d)>(), hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(data) + index + i));
      value = dtype == DType::f16 ? widen_f16(d, bits) : widen_bf16(d, bits);
    }
    hn::StoreU(hn::IfThenElse(hn::Eq(value, value), hn::Mul(factor, value), plain_nan), d, to + i);
  }
  return i;
}
inline std::int64_t widen_values(const TableRow<float>& from, std::int64_t count, float* to) {
  if (from.dtype == DType::f32) return widen_values<DType::f32>(from, count, to);
  return from.dtype == DType::f16 ? widen_values<DType::f16>(from, count, to) : widen_values<DType::bf16>(from, count, to);
}

#endif  // PHASOR_LANES

template <class T>
void fill_from_table(const TableRow<T>& from, std::int64_t count, T* to) {
  std::int64_t i = 0;
#if PHASOR_LANES
  if constexpr (std::is_same_v<T, float>) {
    if (from.stride == 1) i = widen_values(from, count, to);
  }
#endif
  for (; i < count; ++i) to[i] = from.sign * table_value<T>(from.data, from.dtype, from.index + i * from.stride);
}

template <class T>
void fill_from_tables(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block, int lane) {
  const job::TableSource& table = source.tables;
  const std::int64_t first = block.first * source.pair_stride;
  const std::int64_t sine_lane = source.swap_sines ? 1 - lane : lane;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const std::int64_t token = rows.token + r;
    const std::int64_t cos = rows.batch * table.cos_strides[0] + token * table.cos_strides[1] + lane * source.second_lane + first;
    const std::int64_t sin = rows.batch * table.sin_strides[0] + token * table.sin_strides[1] + sine_lane * source.second_lane + first;
    fill_from_table<T>({table.cos, table.dtype, cos, source.pair_stride, T{1}}, block.count, block.cos + r * block.stride);
    fill_from_table<T>({table.sin, table.dtype, sin, source.pair_stride, static_cast<T>(source.sine_sign)}, block.count,
                       block.sin + r * block.stride);
  }
}
