// SPDX-License-Identifier: Apache-2.0
// Decoding's two products, on keys and values as they lie in the caller's memory: every row is read once, from its first channel to its
// last, and a 16-bit number is widened in the register that it is used from. Included once in each target's namespace.

/// Rows of a tile where they lie. A row asks for one that is read later: no machine guesses where the next row of a head is.
template <DType dtype>
struct RowsInPlace {
  const Stored<dtype>* data;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t width;         // a multiple of kPadding
  const Stored<dtype>* next;  // the first row of the tile that comes next; null: there is none

  const Stored<dtype>* row(std::int64_t j) const { return data + std::min(j, count - 1) * stride; }
};

// How many rows ahead: a Neoverse-N1 forgets what it was asked for too early (up to 8 rows ahead it read a cache in 10 ms, 64 rows in 15).
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
constexpr std::int64_t kRowsAhead = 6;
#else
constexpr std::int64_t kRowsAhead = attend::kKeyTile;
#endif

template <DType dtype>
HWY_INLINE void prefetch_ahead(const RowsInPlace<dtype>& rows, std::int64_t j) {
  const std::int64_t later = j + kRowsAhead;
  if (later < rows.count) return prefetch_row(rows.data + later * rows.stride, rows.width);
  if (rows.next != nullptr) prefetch_row(rows.next + (later - rows.count) * rows.stride, rows.width);
}

// Registers of a row at a time: with 32 of them two, because of two 16-bit numbers side by side both are widened as quickly as one.
constexpr int kRowRegisters = kManyRegisters ? 2 : 1;

template <DType dtype, int kCount>
HWY_INLINE void load_row(const Stored<dtype>* in, Reg<Computed<dtype>> (&out)[kCount]) {
  using T = Computed<dtype>;
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
  if constexpr (dtype == DType::bf16 && kCount == 2) {
    const hn::ScalableTag<std::uint16_t> d16;
    const auto bits = hn::LoadU(d16, in);
    out[0] = hn::BitCast(hn::ScalableTag<float>(), hn::InterleaveLower(d16, hn::Zero(d16), bits));
    out[1] = hn::BitCast(hn::ScalableTag<float>(), hn::InterleaveUpper(d16, hn::Zero(d16), bits));
    return;
  }
#endif
  HWY_UNROLL(2)
  for (int n = 0; n < kCount; ++n) out[n] = load_widened<dtype>(in + n * lanes<T>);
}

// ---- Scores ----

/// Rows of queries, (rows, width), and their scores, row stride kKeyTile.
template <class T>
struct DecodeScores {
  std::int64_t rows;
  const T* q;
  T* scores;
};

/// sums += q . keys, for kCount registers of channels from d on. Few rows have sums of their own for each register: none waits for itself.
template <DType dtype, int kCount, int kRows, int kSums, class T = Computed<dtype>>
HWY_INLINE void dot_step(const T* q, std::int64_t width, const Stored<dtype>* const (&keys)[kDotKeys],
                         Reg<T> (&sum)[kSums][kRows][kDotKeys]) {
  Reg<T> y[kDotKeys][kCount];
  HWY_UNROLL(4)
  for (int j = 0; j < kDotKeys; ++j) load_row<dtype, kCount>(keys[j], y[j]);
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int n = 0; n < kCount; ++n) {
      const Reg<T> x = load(q + i * width + n * lanes<T>);
      HWY_UNROLL(4)
      for (int j = 0; j < kDotKeys; ++j) sum[n % kSums][i][j] = mul_add(x, y[j][n], sum[n % kSums][i][j]);
    }
  }
}

template <DType dtype, int kRows, class T = Computed<dtype>>
HWY_INLINE void dot_in_place(const DecodeScores<T>& to, const RowsInPlace<dtype>& keys, std::int64_t row, std::int64_t key) {
  constexpr int kSums = kRows <= 2 ? kRowRegisters : 1;
  constexpr int kStep = kRowRegisters * lanes<T>;
  const Stored<dtype>* at[kDotKeys];
  HWY_UNROLL(4)
  for (int j = 0; j < kDotKeys; ++j) at[j] = keys.row(key + j);
  Reg<T> sum[kSums][kRows][kDotKeys];
  HWY_UNROLL(2)
  for (int n = 0; n < kSums; ++n) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(4)
      for (int j = 0; j < kDotKeys; ++j) sum[n][i][j] = zero<T>();
    }
  }
  const T* q = to.q + row * keys.width;
  std::int64_t d = 0;
  for (; d + kStep <= keys.width; d += kStep, q += kStep) {
    dot_step<dtype, kRowRegisters>(q, keys.width, at, sum);
    HWY_UNROLL(4)
    for (int j = 0; j < kDotKeys; ++j) at[j] += kStep;
  }
  if (kRowRegisters > 1 && d < keys.width) dot_step<dtype, 1>(q, keys.width, at, sum);
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < kDotKeys && kSums > 1; ++j) sum[0][i][j] = add(sum[0][i][j], sum[kSums - 1][i][j]);
    reduce_four_sums<T>(sum[0][i], to.scores + (row + i) * attend::kKeyTile + key);
  }
}
template <DType dtype, int kRows = kDotRows, class T = Computed<dtype>>
HWY_INLINE void dot_rows_in_place(const DecodeScores<T>& to, const RowsInPlace<dtype>& keys, std::int64_t row, std::int64_t key) {
  for (; row + kRows <= to.rows; row += kRows) dot_in_place<dtype, kRows>(to, keys, row, key);
  if constexpr (kRows > 1) dot_rows_in_place<dtype, kRows - 1>(to, keys, row, key);
}

/// All scores of a tile, written up to a multiple of 4 keys.
template <DType dtype, class T = Computed<dtype>>
HWY_NOINLINE void scores_in_place(const DecodeScores<T>& to, const RowsInPlace<dtype>& keys) {
  for (std::int64_t key = 0; key < keys.count; key += kDotKeys) {
    for (std::int64_t j = key; j < std::min<std::int64_t>(key + kDotKeys, keys.count); ++j) prefetch_ahead(keys, j);
    dot_rows_in_place<dtype>(to, keys, 0, key);
  }
}

// ---- Values ----

/// out (rows, width) <- factor out + p values; p: row stride kKeyTile; factor: one per row, null: 1.
template <class T>
struct DecodeOut {
  std::int64_t rows;
  const T* p;
  const T* factor;
  T* out;
};

/// kCount registers of channels from d on, for some rows and some keys from `key` on. What the keys give is added up before it is added to
/// out.
template <DType dtype, int kCount, int kRows, int kKeys, class T = Computed<dtype>>
HWY_INLINE void value_step(const T (&p)[kRows][kKeys], const Reg<T> (&factor)[kRows], const Stored<dtype>* const (&values)[kKeys],
                           std::int64_t width, T* out) {
  Reg<T> sum[kRows][kCount];
  HWY_UNROLL(8)
  for (int j = 0; j < kKeys; ++j) {
    Reg<T> y[kCount];
    load_row<dtype, kCount>(values[j], y);
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(2)
      for (int n = 0; n < kCount; ++n) sum[i][n] = j == 0 ? mul(set(p[i][j]), y[n]) : mul_add(set(p[i][j]), y[n], sum[i][n]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int n = 0; n < kCount; ++n) {
      T* const place = out + i * width + n * lanes<T>;
      store(mul_add(factor[i], load(place), sum[i][n]), place);
    }
  }
}
template <DType dtype, int kRows, int kKeys, class T = Computed<dtype>>
HWY_INLINE void add_values_in_place(const DecodeOut<T>& to, const RowsInPlace<dtype>& values, std::int64_t row, std::int64_t key) {
  constexpr int kStep = kRowRegisters * lanes<T>;
  T p[kRows][kKeys];
  Reg<T> factor[kRows];
  const Stored<dtype>* at[kKeys];
  HWY_UNROLL(8)
  for (int j = 0; j < kKeys; ++j) {
    at[j] = values.data + (key + j) * values.stride;
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) p[i][j] = to.p[(row + i) * attend::kKeyTile + key + j];
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) factor[i] = set(key == 0 && to.factor != nullptr ? to.factor[row + i] : T{1});
  T* out = to.out + row * values.width;
  std::int64_t d = 0;
  for (; d + kStep <= values.width; d += kStep, out += kStep) {
    value_step<dtype, kRowRegisters>(p, factor, at, values.width, out);
    HWY_UNROLL(8)
    for (int j = 0; j < kKeys; ++j) at[j] += kStep;
  }
  if (kRowRegisters > 1 && d < values.width) value_step<dtype, 1>(p, factor, at, values.width, out);
}
template <DType dtype, int kKeys, int kRows = kDotRows, class T = Computed<dtype>>
HWY_INLINE void add_rows_in_place(const DecodeOut<T>& to, const RowsInPlace<dtype>& values, std::int64_t row, std::int64_t key) {
  for (; row + kRows <= to.rows; row += kRows) add_values_in_place<dtype, kRows, kKeys>(to, values, row, key);
  if constexpr (kRows > 1) add_rows_in_place<dtype, kKeys, kRows - 1>(to, values, row, key);
}

template <DType dtype, class T = Computed<dtype>>
HWY_NOINLINE void values_in_place(const DecodeOut<T>& to, const RowsInPlace<dtype>& values) {
  constexpr int kKeys = 4;
  std::int64_t key = 0;
  for (; key + kKeys <= values.count; key += kKeys) {
    for (std::int64_t j = key; j < key + kKeys; ++j) prefetch_ahead(values, j);
    add_rows_in_place<dtype, kKeys>(to, values, 0, key);
  }
  for (; key < values.count; ++key) add_rows_in_place<dtype, 1>(to, values, 0, key);
}
