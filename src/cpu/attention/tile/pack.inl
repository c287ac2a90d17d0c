// SPDX-License-Identifier: Apache-2.0
// Rows of tensors into padded buffers and back, and transposes: what makes operands of matrix products.

template <DType dtype>
HWY_INLINE void pack_row(const Stored<dtype>* in, std::int64_t width, Computed<dtype>* out, Computed<dtype> factor) {
  using T = Computed<dtype>;
  std::int64_t i = 0;
  for (; i + lanes<T> <= width; i += lanes<T>) store(mul(load_widened<dtype>(in + i), set(factor)), out + i);
  for (; i < width; ++i) out[i] = widen_one<dtype>(in[i]) * factor;
  for (; i < padded(width); ++i) out[i] = 0;
}

/// Asks for `count` elements, line by line, to be brought to the second cache.
template <class S>
HWY_INLINE void prefetch_row(const S* row, std::int64_t count) {
  for (std::int64_t at = 0; at < count; at += 64 / static_cast<std::int64_t>(sizeof(S))) __builtin_prefetch(row + at, 0, 2);
}

template <DType dtype>
void pack_rows_of(const ConstStoredRows& in, const PackedRows<Computed<dtype>>& out, Computed<dtype> factor) {
  const auto* row = static_cast<const Stored<dtype>*>(in.data);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    if (in.ahead != 0) prefetch_row(row + r * in.stride + in.ahead, in.width);
    pack_row<dtype>(row + r * in.stride, in.width, out.data + r * out.stride, factor);
  }
  for (std::int64_t r = in.rows; r < out.rows; ++r) std::fill_n(out.data + r * out.stride, padded(in.width), Computed<dtype>{0});
}

/// Each row times `factor`, zeros up to a multiple of kPadding, and rows of zeros. Nothing beyond the tensor is read.
template <class T>
void pack_rows(const ConstStoredRows& in, const PackedRows<T>& out, T factor) {
  if constexpr (std::is_same_v<T, double>) {
    pack_rows_of<DType::f64>(in, out, factor);
  } else {
    if (in.dtype == DType::f32) return pack_rows_of<DType::f32>(in, out, factor);
    if (in.dtype == DType::f16) return pack_rows_of<DType::f16>(in, out, factor);
    pack_rows_of<DType::bf16>(in, out, factor);
  }
}

#if PHASOR_LANES

/// 128-bit blocks from places `step` elements apart, side by side.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* in, std::int64_t step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    return hn::LoadU(d, in);
  } else {
    const hn::Half<D> half;
    constexpr std::int64_t kBlocks = hn::MaxLanes(hn::Half<D>()) * sizeof(T) / 16;
    return hn::Combine(d, load_blocks(half, in + kBlocks * step, step), load_blocks(half, in, step));
  }
}

/// Columns [0, 16 bytes) of lanes<T> rows, written as rows. The blocks of a register come from rows that far apart that a transpose inside
/// the blocks ends the work.
HWY_INLINE void transpose_blocks(const float* in, std::int64_t stride, float* out, std::int64_t out_stride) {
  const hn::ScalableTag<float> d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<hn::ScalableTag<float>>> pairs;
  const auto r0 = load_blocks(d, in, 4 * stride);
  const auto r1 = load_blocks(d, in + stride, 4 * stride);
  const auto r2 = load_blocks(d, in + 2 * stride, 4 * stride);
  const auto r3 = load_blocks(d, in + 3 * stride, 4 * stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));  // (0, 0) (1, 0) (0, 1) (1, 1) of (row, column)
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, out + out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, out + 2 * out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, out + 3 * out_stride);
}
#if HWY_HAVE_FLOAT64
HWY_INLINE void transpose_blocks(const double* in, std::int64_t stride, double* out, std::int64_t out_stride) {
  const hn::ScalableTag<double> d;
  const auto r0 = load_blocks(d, in, 2 * stride);
  const auto r1 = load_blocks(d, in + stride, 2 * stride);
  hn::StoreU(hn::InterleaveLower(d, r0, r1), d, out);
  hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, out + out_stride);
}
#endif

/// Some rows that fill a register, transposed as far as columns fill blocks; returns how many columns that was.
template <class T>
HWY_INLINE std::int64_t transpose_register_rows(const T* in, std::int64_t stride, std::int64_t columns, T* out, std::int64_t out_stride) {
  constexpr std::int64_t kBlock = 16 / sizeof(T);
  std::int64_t c = 0;
  if constexpr (in_registers<T>) {
    for (; c + kBlock <= columns; c += kBlock) transpose_blocks(in + c, stride, out + c * out_stride, out_stride);
  }
  return c;
}

#endif  // PHASOR_LANES

/// out[c][r] = in[r][c] for `columns` columns; rows of out have at least in.rows elements.
template <class T>
void transpose(const PackedRows<const T>& in, std::int64_t columns, const PackedRows<T>& out) {
  for (std::int64_t r = 0; r < in.rows;) {
    const std::int64_t count = std::min<std::int64_t>(lanes<T>, in.rows - r);
    const T* from = in.data + r * in.stride;
    std::int64_t c = 0;
#if PHASOR_LANES
    if (count == lanes<T>) c = transpose_register_rows(from, in.stride, columns, out.data + r, out.stride);
#endif
    for (; c < columns; ++c) {
      for (std::int64_t i = 0; i < count; ++i) out.data[c * out.stride + r + i] = from[i * in.stride + c];
    }
    r += count;
  }
}

/// Up to kKeyTile rows of a tensor as columns: out (out.rows, kKeyTile), zeros in columns without a row and in rows beyond the width.
template <class T>
void pack_transposed(const ConstStoredRows& in, const PackedRows<T>& out) {
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kColumns = 2 * kPadding;
  HWY_ALIGN T widened[kRows * kColumns];
  for (std::int64_t r = 0; r < kKeyTile; r += kRows) {
    const std::int64_t rows = std::clamp<std::int64_t>(in.rows - r, 0, kRows);
    for (std::int64_t c = 0; c < in.width; c += kColumns) {
      const std::int64_t columns = std::min(kColumns, in.width - c);
      const PackedRows<T> to{out.data + c * out.stride + r, out.stride, columns};
      const std::int64_t offset = r * in.stride + c;
      if (std::is_same_v<T, double> || in.dtype == DType::f32) {
        if (rows == kRows) {
          transpose<T>({static_cast<const T*>(in.data) + offset, in.stride, kRows}, columns, to);
          continue;
        }
      }
      const char* from = static_cast<const char*>(in.data) + (rows == 0 ? 0 : offset * bytes_of(in.dtype));
      pack_rows<T>({from, in.dtype, in.stride, rows, columns}, {widened, kColumns, kRows}, T{1});
      transpose<T>({widened, kColumns, kRows}, columns, to);
    }
  }
  for (std::int64_t c = in.width; c < out.rows; ++c) std::fill_n(out.data + c * out.stride, kKeyTile, T{0});
}

template <DType dtype>
HWY_INLINE void unpack_row(const Computed<dtype>* in, Computed<dtype> factor, std::int64_t width, Stored<dtype>* out) {
  using T = Computed<dtype>;
  std::int64_t i = 0;
  for (; i + lanes<T> <= width; i += lanes<T>) store_narrowed<dtype>(mul(load(in + i), set(factor)), out + i);
  for (; i < width; ++i) out[i] = narrow_one<dtype>(in[i] * factor);
}

template <DType dtype>
void unpack_rows_of(const PackedRows<const Computed<dtype>>& in, const Computed<dtype>* factor, const StoredRows& out) {
  auto* row = static_cast<Stored<dtype>*>(out.data);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    unpack_row<dtype>(in.data + r * in.stride, factor == nullptr ? Computed<dtype>{1} : factor[r], out.width, row + r * out.stride);
  }
}

/// Each row times factor[row] (null: 1), rounded to nearest even. Nothing beyond the tensor is written.
template <class T>
void unpack_rows(const PackedRows<const T>& in, const T* factor, const StoredRows& out) {
  if constexpr (std::is_same_v<T, double>) {
    unpack_rows_of<DType::f64>(in, factor, out);
  } else {
    if (out.dtype == DType::f32) return unpack_rows_of<DType::f32>(in, factor, out);
    if (out.dtype == DType::f16) return unpack_rows_of<DType::f16>(in, factor, out);
    unpack_rows_of<DType::bf16>(in, factor, out);
  }
}
