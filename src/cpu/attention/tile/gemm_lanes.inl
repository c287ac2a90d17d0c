// SPDX-License-Identifier: Apache-2.0
// The matrix product where a multiply-add takes any lane of a register as its factor (NEON): a register of A then serves several steps, and
// no step broadcasts. 8 x 2 sums, the registers of A and a row of B leave some of 32 registers free, so that nothing is spilled, and are as
// many as two pipes of latency 4 want, twice. Rows go outside: B stays in the first cache, A and C are walked once.

/// a[lane] b + c
template <int lane>
HWY_INLINE Reg<float> mul_add_lane(Reg<float> a, Reg<float> b, Reg<float> c) {
  return Reg<float>(vfmaq_laneq_f32(c.raw, b.raw, a.raw, lane));
}
template <int lane>
HWY_INLINE Reg<double> mul_add_lane(Reg<double> a, Reg<double> b, Reg<double> c) {
  return Reg<double>(vfmaq_laneq_f64(c.raw, b.raw, a.raw, lane));
}

/// Where a block is in A and B, and its sums.
template <int kRows, int kColumns, class T>
struct LaneBlock {
  const T* a;
  std::int64_t a_row;
  std::int64_t a_k;
  const T* b;
  std::int64_t b_row;
  Reg<T> sum[kRows][kColumns];
};

/// The step of one lane: sums += x[lane] now, with what the next step wants loaded in between.
template <int lane, int kRows, int kColumns, class T>
HWY_INLINE void lane_step(LaneBlock<kRows, kColumns, T>& s, Reg<T> (&x)[kRows], const Reg<T> (&now)[kColumns], Reg<T> (&next)[kColumns]) {
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) s.sum[i][j] = mul_add_lane<lane>(x[i], now[j], s.sum[i][j]);
    HWY_UNROLL(8)
    for (int j = i; j < kColumns; j += kRows) next[j] = load(s.b + j * lanes<T>);
    if (lane + 1 == lanes<T>) x[i] = load(s.a + i * s.a_row);
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) make_now(s.sum[i][j]);
  }
}
template <int lane, int kRows, int kColumns, class T>
HWY_INLINE void lane_steps(LaneBlock<kRows, kColumns, T>& s, bool more, Reg<T> (&x)[kRows], Reg<T> (&now)[kColumns]) {
  Reg<T> next[kColumns];
  s.b += s.b_row;
  lane_step<lane>(s, x, now, next);
  s.b += more || lane + 2 < lanes<T> ? s.b_row : 0;  // nothing behind the operands is read
  lane_step<lane + 1>(s, x, next, now);
  if constexpr (lane + 2 < lanes<T>) lane_steps<lane + 2>(s, more, x, now);
}

/// As many steps as fill registers of A, whose rows lie side by side; returns how many.
template <int kRows, int kColumns, class T>
HWY_INLINE std::int64_t steps_along_rows(LaneBlock<kRows, kColumns, T>& s, std::int64_t k) {
  const std::int64_t whole = k / lanes<T> * lanes<T>;
  if (whole == 0) return 0;
  Reg<T> x[kRows];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) x[i] = load(s.a + i * s.a_row);
  Reg<T> row_of_b[kColumns];
  HWY_UNROLL(8)
  for (int j = 0; j < kColumns; ++j) row_of_b[j] = load(s.b + j * lanes<T>);
  for (std::int64_t left = whole - lanes<T>; left >= 0; left -= lanes<T>) {
    s.a += left > 0 ? lanes<T> : 0;
    lane_steps<0>(s, left > 0, x, row_of_b);
  }
  s.a += lanes<T>;
  s.b += s.b_row;
  return whole;
}

/// Sums of one step, where A's columns lie side by side: register i / lanes holds row i.
template <int i, int kRows, int kColumns, class T>
HWY_INLINE void row_by_row(LaneBlock<kRows, kColumns, T>& s, const Reg<T> (&x)[kRows / lanes<T>], const Reg<T> (&row_of_b)[kColumns]) {
  HWY_UNROLL(8)
  for (int j = 0; j < kColumns; ++j) s.sum[i][j] = mul_add_lane<i % lanes<T>>(x[i / lanes<T>], row_of_b[j], s.sum[i][j]);
  if constexpr (i + 1 < kRows) row_by_row<i + 1>(s, x, row_of_b);
}
template <int kRows, int kColumns, class T>
HWY_INLINE std::int64_t steps_along_columns(LaneBlock<kRows, kColumns, T>& s, std::int64_t k) {
  for (std::int64_t p = k; p > 0; --p, s.a += s.a_k, s.b += s.b_row) {
    Reg<T> x[kRows / lanes<T>];
    HWY_UNROLL(8)
    for (int i = 0; i < kRows / lanes<T>; ++i) x[i] = load(s.a + i * lanes<T>);
    Reg<T> row_of_b[kColumns];
    HWY_UNROLL(8)
    for (int j = 0; j < kColumns; ++j) row_of_b[j] = load(s.b + j * lanes<T>);
    row_by_row<0>(s, x, row_of_b);
  }
  return k;
}

/// Steps that fill no register, and operands with gaps everywhere.
template <int kRows, int kColumns, class T>
HWY_INLINE void single_steps(LaneBlock<kRows, kColumns, T>& s, std::int64_t k) {
  for (std::int64_t p = k; p > 0; --p, s.a += s.a_k, s.b += s.b_row) {
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      const Reg<T> x = set(s.a[i * s.a_row]);
      HWY_UNROLL(8)
      for (int j = 0; j < kColumns; ++j) s.sum[i][j] = mul_add(x, load(s.b + j * lanes<T>), s.sum[i][j]);
    }
  }
}

template <class T>
HWY_INLINE void prefetch_part(const Gemm<T>& g, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t end = std::min(g.next_count, first + count);
  for (std::int64_t at = (first + kLine - 1) / kLine * kLine; at < end; at += kLine) __builtin_prefetch(g.next + at, 0, 2);
}

/// kRows rows, all columns.
template <int kRows, int kColumns, class T>
HWY_INLINE void gemm_row_block(const Gemm<T>& g, std::int64_t row) {
  const std::int64_t share = g.next_count / g.m * kRows + kRows;
  for (std::int64_t column = 0; column < g.n; column += kColumns * lanes<T>) {
    if (g.next_count > 0) prefetch_part(g, row * (g.next_count / g.m + 1) + share * column / g.n, share * kColumns * lanes<T> / g.n);
    LaneBlock<kRows, kColumns, T> s = {g.a + row * g.a_row, g.a_row, g.a_k, g.b + column, g.b_row, {}};
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(8)
      for (int j = 0; j < kColumns; ++j) s.sum[i][j] = zero<T>();
    }
    std::int64_t done = 0;
    if (g.a_k == 1) {
      done = steps_along_rows(s, g.k);
    } else if (kRows % lanes<T> == 0 && g.a_row == 1) {
      if constexpr (kRows % lanes<T> == 0) done = steps_along_columns(s, g.k);
    }
    single_steps(s, g.k - done);
    store_block(g, row, column, s.sum);
  }
}

template <class T>
HWY_NOINLINE void gemm(const Gemm<T>& job) {
  const Gemm<T> g = job;  // a copy: the compiler cannot know that C does not hold the struct
  std::int64_t row = 0;
  for (; row + kBlockRows <= g.m; row += kBlockRows) gemm_row_block<kBlockRows, kBlockColumns>(g, row);
  static_assert(kBlockRows == 8);  // what is left are 4, 2 and 1
  if (row + 4 <= g.m) {
    gemm_row_block<4, 4>(g, row);
    row += 4;
  }
  if (row + 2 <= g.m) {
    gemm_row_block<2, 4>(g, row);
    row += 2;
  }
  if (row < g.m) gemm_row_block<1, 4>(g, row);
}
