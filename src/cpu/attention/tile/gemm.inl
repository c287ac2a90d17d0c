// SPDX-License-Identifier: Apache-2.0
// The one matrix product of attention: C = [C +] A B on operands that lie in the caches, by blocks of registers.

// Blocks of registers: as many sums as fit beside the registers of a row of B and one of A. 32 registers: 6 x 4; 16 registers: 6 x 2.
// NEON multiplies by any lane of a register and keeps some of A: 8 x 2, see cpu/attention/tile/gemm_lanes.inl.
#if PHASOR_LANES && HWY_TARGET == HWY_AVX3
constexpr int kBlockRows = 6;
constexpr int kBlockColumns = 4;
constexpr bool kManyRegisters = true;  // 32 of them
#elif PHASOR_LANES && HWY_TARGET == HWY_NEON
constexpr int kBlockRows = 8;
constexpr int kBlockColumns = 2;
constexpr bool kManyRegisters = true;
#elif PHASOR_LANES
constexpr int kBlockRows = 6;
constexpr int kBlockColumns = 2;
constexpr bool kManyRegisters = false;
#else
constexpr int kBlockRows = 2;
constexpr int kBlockColumns = 2;
constexpr bool kManyRegisters = false;
#endif

/// Sums of a block of registers to C.
template <int kRows, int kColumns, class T>
HWY_INLINE void store_block(const Gemm<T>& g, std::int64_t row, std::int64_t column, Reg<T> (&sum)[kRows][kColumns]) {
  const std::int64_t c_row = g.c_row;  // a copy: the compiler cannot know that C does not hold the struct
  T* c = g.c + row * c_row + column;
  const T one = 1;
  const T* factor = g.factor != nullptr ? g.factor + row : &one;
  const std::int64_t next_factor = g.factor != nullptr ? 1 : 0;
  const bool add_to_c = g.add;
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i, c += c_row, factor += next_factor) {
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) {
      if (add_to_c) sum[i][j] = mul_add(set(*factor), load(c + j * lanes<T>), sum[i][j]);
      store(sum[i][j], c + j * lanes<T>);
    }
  }
}

/// Rows [row, row + kRows) of `kColumns` registers of columns from `column` on.
template <int kRows, int kColumns, class T>
HWY_INLINE void gemm_block(const Gemm<T>& g, std::int64_t row, std::int64_t column) {
  const std::int64_t a_k = g.a_k;
  const std::int64_t b_row = g.b_row;
  Reg<T> sum[kRows][kColumns];
  const T* a[kRows];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    a[i] = g.a + (row + i) * g.a_row;
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) sum[i][j] = zero<T>();
  }
  const T* b = g.b + column;
  for (std::int64_t p = g.k; p > 0; --p, b += b_row) {
    Reg<T> row_of_b[kColumns];
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) row_of_b[j] = load(b + j * lanes<T>);
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      const Reg<T> x = set(*a[i]);
      a[i] += a_k;
      HWY_UNROLL(8)
      for (int j = 0; j < kColumns; ++j) sum[i][j] = mul_add(x, row_of_b[j], sum[i][j]);
    }
  }
  store_block(g, row, column, sum);
}

/// The share of g.next that goes with a block of rows: products of tiles are long enough to hide the way from a far cache.
template <class T>
HWY_INLINE void gemm_prefetch(const Gemm<T>& g, std::int64_t row) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t share = g.next_count / g.m + 1;
  const std::int64_t end = std::min(g.next_count, (row + kBlockRows) * share);
  for (std::int64_t at = row * share; at < end; at += kLine) __builtin_prefetch(g.next + at, 0, 2);
}

#if PHASOR_LANES && HWY_TARGET == HWY_NEON
#include "cpu/attention/tile/gemm_lanes.inl"
#else

/// All rows of some columns, the last ones in smaller blocks.
template <int kColumns, int kRows = kBlockRows, class T>
HWY_INLINE void gemm_rows(const Gemm<T>& g, std::int64_t row, std::int64_t column) {
  for (; row + kRows <= g.m; row += kRows) {
    if (kRows == kBlockRows && column == 0 && g.next_count > 0) gemm_prefetch(g, row);
    gemm_block<kRows, kColumns>(g, row, column);
  }
  if constexpr (kRows > 1) gemm_rows<kColumns, kRows - 1>(g, row, column);
}

/// `columns` registers of columns: as wide a block as there is one for.
template <int kColumns = kBlockColumns, class T>
HWY_INLINE void gemm_columns(const Gemm<T>& g, int columns, std::int64_t column) {
  if constexpr (kColumns > 1) {
    if (columns < kColumns) return gemm_columns<kColumns - 1>(g, columns, column);
  }
  gemm_rows<kColumns>(g, 0, column);
}

template <class T>
HWY_NOINLINE void gemm(const Gemm<T>& g) {
  int left = static_cast<int>(g.n / lanes<T>);
  for (std::int64_t column = 0; left > 0;) {
    // Five registers are three and two: a block of one would wait for its own sums.
    const int columns = left > kBlockColumns && left < 2 * kBlockColumns ? (left + 1) / 2 : std::min(left, kBlockColumns);
    gemm_columns(g, columns, column);
    column += columns * lanes<T>;
    left -= columns;
  }
}

#endif

// ---- Few rows, against rows ----

// Keys of a block, and rows: 4 x 4 sums where there are 32 registers.
constexpr int kDotKeys = 4;
constexpr int kDotRows = kManyRegisters ? 4 : 2;

template <int kRows, class T>
HWY_INLINE void dot_block(const Gemm<T>& g, std::int64_t row, std::int64_t key) {
  const T* a = g.a + row * g.a_row;
  const T* b[kDotKeys];
  Reg<T> sum[kRows][kDotKeys];
  HWY_UNROLL(8)
  for (int j = 0; j < kDotKeys; ++j) {
    b[j] = g.b + std::min(key + j, g.n - 1) * g.b_row;
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) sum[i][j] = zero<T>();
  }
  for (std::int64_t p = 0; p < g.k; p += lanes<T>) {
    Reg<T> y[kDotKeys];
    HWY_UNROLL(8)
    for (int j = 0; j < kDotKeys; ++j) y[j] = load(b[j] + p);
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      const Reg<T> x = load(a + i * g.a_row + p);
      HWY_UNROLL(8)
      for (int j = 0; j < kDotKeys; ++j) sum[i][j] = mul_add(x, y[j], sum[i][j]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) reduce_four_sums<T>(sum[i], g.c + (row + i) * g.c_row + key);
}

template <int kRows = kDotRows, class T>
HWY_INLINE void dot_keys(const Gemm<T>& g, std::int64_t row, std::int64_t key) {
  for (; row + kRows <= g.m; row += kRows) dot_block<kRows>(g, row, key);
  if constexpr (kRows > 1) dot_keys<kRows - 1>(g, row, key);
}

/// C (m, n) = A (m, k) B^T with B (n, k) as it lies, for few rows: nothing is packed. k is a multiple of 16; a_k is 1; n up to a multiple
/// of 4 is written. g.next: rows to be read later, as far apart as those of B.
template <class T>
HWY_NOINLINE void dot_rows(const Gemm<T>& g) {
  for (std::int64_t key = 0; key < g.n; key += kDotKeys) {
    for (int j = 0; j < kDotKeys && g.next != nullptr; ++j) prefetch_row(g.next + (key + j) * g.b_row, g.k);
    dot_keys(g, 0, key);
  }
}
