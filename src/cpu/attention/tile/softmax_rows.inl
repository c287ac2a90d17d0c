// SPDX-License-Identifier: Apache-2.0
// Rows of a score tile through the softmax that goes tile by tile, and its probabilities again in the backward pass.

/// What is subtracted from a row's scores: its maximum, or 0 where nothing was seen yet, so that -infinity stays and becomes 0.
template <class T>
HWY_INLINE Reg<T> base_of(Reg<T> maximum) {
  return zero_if(less(maximum, set(std::numeric_limits<T>::lowest())), maximum);
}

/// A register of scores, after something was added to it.
template <bool kAdds, class T>
HWY_INLINE Reg<T> load_score(const T* added, T* score) {
  if constexpr (!kAdds) return load(score);
  const Reg<T> sum = add(load(score), load(added));
  store(sum, score);
  return sum;
}
template <bool kAdds, class T>
HWY_INLINE Reg<T> row_maximum(const T* added, T* scores) {
  Reg<T> most[kTogether];
  HWY_UNROLL(8)
  for (int i = 0; i < kTogether; ++i) most[i] = load_score<kAdds>(added + i * lanes<T>, scores + i * lanes<T>);
  HWY_UNROLL(8)
  for (int j = kTogether * lanes<T>; j < kKeyTile; j += kTogether * lanes<T>) {
    HWY_UNROLL(8)
    for (int i = 0; i < kTogether; ++i) {
      const int at = j + i * lanes<T>;
      most[i] = max(most[i], load_score<kAdds>(added + at, scores + at));
    }
  }
  HWY_UNROLL(8)
  for (int i = 1; i < kTogether; ++i) most[0] = max(most[0], most[i]);
  return most[0];
}
template <bool kAdds, class T>
HWY_INLINE void row_maxima(const SoftmaxRows<T>& tile, T* out) {
  const AddedRows<T> added = tile.added;
  const std::int64_t rows = tile.rows;
  T* scores = tile.scores;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, scores += 4 * kKeyTile) {
    Reg<T> most[4];
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) most[i] = row_maximum<kAdds>(kAdds ? added.row(r + i) : scores, scores + i * kKeyTile);
    reduce_four_maxima<T>(most, out + r);
  }
  for (; r < rows; ++r, scores += kKeyTile) out[r] = reduce_max(row_maximum<kAdds>(kAdds ? added.row(r) : scores, scores));
}

/// scores <- e^(scores - base); returns the lanes' sums.
template <class T>
HWY_INLINE Reg<T> exponentiate_row(T* scores, T base) {
  constexpr int kSums = std::min(kTogether, 2);
  // Unrolled where registers go one by one: many side by side are enough.
  [[maybe_unused]] constexpr int kRowSteps = kTogether > 1 ? 1 : 8;  // g++ does not count the pragma as a use
  const Reg<T> shift = set(base);
  Reg<T> sum[kSums];
  HWY_UNROLL(8)
  for (int i = 0; i < kSums; ++i) sum[i] = zero<T>();
  HWY_UNROLL(kRowSteps)
  for (int j = 0; j < kKeyTile; j += kTogether * lanes<T>) {
    Reg<T> p[kTogether];
    HWY_UNROLL(8)
    for (int i = 0; i < kTogether; ++i) p[i] = sub(load(scores + j + i * lanes<T>), shift);
    exponentials<T>(p);
    HWY_UNROLL(8)
    for (int i = 0; i < kTogether; ++i) {
      store(p[i], scores + j + i * lanes<T>);
      sum[i % kSums] = add(sum[i % kSums], p[i]);
    }
  }
  return kSums == 1 ? sum[0] : add(sum[0], sum[kSums - 1]);
}
template <class T>
HWY_INLINE void exponentiate_rows(std::int64_t rows, T* scores, const T* base, T* sums) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    Reg<T> sum[4];
    for (int i = 0; i < 4; ++i, scores += kKeyTile) sum[i] = exponentiate_row(scores, base[r + i]);
    reduce_four_sums<T>(sum, sums + r);
  }
  for (; r < rows; ++r, scores += kKeyTile) sums[r] = reduce_sum(exponentiate_row(scores, base[r]));
}

/// One more tile for every row; returns whether any maximum rose, that is, whether `factor` is more than ones.
template <class T>
HWY_NOINLINE bool update_softmax(const SoftmaxRows<T>& tile) {
  const std::int64_t rows = tile.rows;
  HWY_ALIGN T base[padded(attend::kQueryTile)];
  HWY_ALIGN T sum[padded(attend::kQueryTile)];
  tile.added.data == nullptr ? row_maxima<false>(tile, base) : row_maxima<true>(tile, base);
  for (std::int64_t r = rows; r < padded(rows); ++r) base[r] = sum[r] = 0;
  Reg<T> risen = zero<T>();
  for (std::int64_t r = 0; r < rows; r += lanes<T>) {
    const Reg<T> before = load(tile.maximum + r);
    const Reg<T> now = max(before, load(base + r));
    const Reg<T> shift = base_of<T>(now);
    const Reg<T> factor = exponential<T>(sub(before, shift));
    risen = max(sub(set(T{1}), factor), risen);  // where max is not NaN for one NaN, it is its second number: that of the rows before
    store(now, tile.maximum + r);
    store(shift, base + r);
    store(factor, tile.factor + r);
  }
  exponentiate_rows(rows, tile.scores, base, sum);
  for (std::int64_t r = 0; r < rows; r += lanes<T>) {
    store(mul_add(load(tile.sum + r), load(tile.factor + r), load(sum + r)), tile.sum + r);
  }
  return !(reduce_max(risen) <= 0);  // a row of NaN does not keep others from their factors
}

/// scores <- e^(scores - lse), the probabilities of a row whose log-sum-exp is known; -infinity there: zeros.
template <class T>
HWY_NOINLINE void probabilities(std::int64_t rows, const T* lse, T* scores) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Reg<T> shift = base_of<T>(set(lse[r]));
    HWY_UNROLL(8)
    for (int j = 0; j < kKeyTile; j += lanes<T>) {
      T* at = scores + r * kKeyTile + j;
      store(exponential<T>(sub(load(at), shift)), at);
    }
  }
}
