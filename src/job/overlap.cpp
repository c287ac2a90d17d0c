// SPDX-License-Identifier: Apache-2.0
// Overlap of strided tensors as a bounded linear equation: bytes apart = sum of stride * index difference, each difference within its
// range.
#include "job/overlap.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "job/check.hpp"

namespace phasor::job {
namespace {

__extension__ typedef __int128 Wide;  // sums of strides times extents of hostile views

/// stride * x, x in [low, high].
struct Term {
  Wide stride;
  std::int64_t low;
  std::int64_t high;
};

/// Searches for integers x_i with sum stride_i x_i = target. Largest strides first, each x limited to what the smaller ones can make up
/// for: with the strides of real tensors one or two values remain at every level.
class Search {
 public:
  void add(std::int64_t stride, std::int64_t low, std::int64_t high) {
    if (low == 0 && high == 0) return;
    if (stride < 0)
      terms_[count_++] = {-Wide{stride}, -high, -low};
    else
      terms_[count_++] = {stride, low, high};
  }

  /// `nonzero`: a solution with every x = 0 does not count.
  Overlap solve(Wide target, bool nonzero) {
    std::sort(terms_, terms_ + count_, [](const Term& a, const Term& b) { return a.stride > b.stride; });
    least_[count_] = most_[count_] = 0;
    for (int i = count_ - 1; i >= 0; --i) {
      least_[i] = least_[i + 1] + terms_[i].stride * terms_[i].low;
      most_[i] = most_[i + 1] + terms_[i].stride * terms_[i].high;
    }
    const bool found = descend(0, target, nonzero);
    if (budget_ <= 0) return Overlap::undecided;
    return found ? Overlap::partial : Overlap::none;
  }

 private:
  static Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

  bool descend(int i, Wide target, bool nonzero) {
    if (--budget_ <= 0) return false;
    if (i == count_ || i == kMostTerms) return target == 0 && !nonzero;
    if (target < least_[i] || target > most_[i]) return false;
    const Term& t = terms_[i];
    if (t.stride == 0) return descend(i + 1, target, false);  // x is free, and its range has a value other than 0
    const Wide low = std::max<Wide>(t.low, -floor_divide(most_[i + 1] - target, t.stride));
    const Wide high = std::min<Wide>(t.high, floor_divide(target - least_[i + 1], t.stride));
    for (Wide x = low; x <= high && budget_ > 0; ++x) {
      if (descend(i + 1, target - t.stride * x, nonzero && x == 0)) return true;
    }
    return false;
  }

  static constexpr int kMostTerms = 2 * StridedBytes::kMostAxes + 1;
  Term terms_[kMostTerms];
  Wide least_[kMostTerms + 1];
  Wide most_[kMostTerms + 1];
  int count_ = 0;
  std::int64_t budget_ = 200000;
};

/// Whether every axis strides over all that the smaller ones reach, as in any permutation of a plain tensor: then no element repeats.
bool is_nested(const ConstTensorView& a) {
  int order[3] = {0, 1, 2};
  const auto size = [&a](int i) { return a.strides[i] < 0 ? -a.strides[i] : a.strides[i]; };
  for (int i : {0, 1, 0}) {  // three comparisons sort three axes
    if (size(order[i]) > size(order[i + 1])) std::swap(order[i], order[i + 1]);
  }
  std::int64_t reach = a.shape[3];
  for (int i : order) {
    if (a.shape[i] == 1) continue;
    if (size(i) < reach) return false;
    reach += size(i) * (a.shape[i] - 1);
  }
  return true;
}

/// First and one past the last byte. 64 bits are enough: check_view keeps a view's reach below 2^61 bytes.
struct Range {
  std::int64_t low;
  std::int64_t high;
};

Range range(const ConstTensorView& a) {
  const std::int64_t size = bytes_of(a.dtype);
  const auto start = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(a.data));
  Range r = {start, start + a.shape[3] * size};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t reach = (a.shape[i] - 1) * a.strides[i] * size;
    (reach < 0 ? r.low : r.high) += reach;
  }
  return r;
}

Range range(const StridedBytes& a) {
  const auto start = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(a.data));
  Range r = {start, start + a.size};
  for (int i = 0; i < a.axes; ++i) {
    const std::int64_t reach = (a.extents[i] - 1) * a.strides[i];
    (reach < 0 ? r.low : r.high) += reach;
  }
  return r;
}

std::uintptr_t at_address(const StridedBytes& a) { return reinterpret_cast<std::uintptr_t>(a.data); }

bool has_no_element(const StridedBytes& a) {
  for (int i = 0; i < a.axes; ++i) {
    if (a.extents[i] == 0) return true;
  }
  return false;
}

/// The same memory at the same indices: strides may differ only where the extent is 1.
bool same_layout(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.data != b.data || a.shape != b.shape || a.dtype != b.dtype) return false;
  for (int i = 0; i < 4; ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

}  // namespace

Overlap self_overlap(const ConstTensorView& a) {
  if (is_empty(a) || is_nested(a)) return Overlap::none;
  Search search;
  for (int i = 0; i < 4; ++i) search.add(a.strides[i], -(a.shape[i] - 1), a.shape[i] - 1);
  return search.solve(0, true);
}

Overlap overlap(const ConstTensorView& a, const ConstTensorView& b) {
  if (is_empty(a) || is_empty(b)) return Overlap::none;
  if (same_layout(a, b)) return Overlap::exact;
  const Range at_a = range(a);
  const Range at_b = range(b);
  if (at_a.high <= at_b.low || at_b.high <= at_a.low) return Overlap::none;
  // In bytes, since the views need not be aligned to each other nor of one dtype.
  const std::int64_t a_size = bytes_of(a.dtype);
  const std::int64_t b_size = bytes_of(b.dtype);
  Search search;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t a_stride = a.strides[i] * a_size;
    const std::int64_t b_stride = b.strides[i] * b_size;
    if (a_stride == b_stride) {  // both indices move together: one difference stands for the two of them
      search.add(a_stride, -(b.shape[i] - 1), a.shape[i] - 1);
    } else {
      search.add(a_stride, 0, a.shape[i] - 1);
      search.add(-b_stride, 0, b.shape[i] - 1);
    }
  }
  // The last axis is contiguous: its bytes are one run.
  search.add(1, -(b.shape[3] * b_size - 1), a.shape[3] * a_size - 1);
  return search.solve(
      static_cast<Wide>(reinterpret_cast<std::uintptr_t>(b.data)) - static_cast<Wide>(reinterpret_cast<std::uintptr_t>(a.data)), false);
}

StridedBytes strided(const ConstTensorView& a) {
  StridedBytes bytes{a.data, bytes_of(a.dtype)};
  for (std::size_t i = 0; i < 4; ++i) bytes.add(a.shape[i], a.strides[i] * bytes.size);
  return bytes;
}

bool share_bytes(const StridedBytes& a, const StridedBytes& b) {
  if (has_no_element(a) || has_no_element(b)) return false;
  const Range at_a = range(a);
  const Range at_b = range(b);
  if (at_a.high <= at_b.low || at_b.high <= at_a.low) return false;
  Search search;
  bool taken[StridedBytes::kMostAxes] = {};
  for (int i = 0; i < a.axes; ++i) {
    int other = 0;
    while (other < b.axes && (taken[other] || b.strides[other] != a.strides[i])) ++other;
    if (other == b.axes) {
      search.add(a.strides[i], 0, a.extents[i] - 1);
      continue;
    }
    taken[other] = true;  // indices of axes with one stride move together: one difference stands for the two of them
    search.add(a.strides[i], -(b.extents[other] - 1), a.extents[i] - 1);
  }
  for (int i = 0; i < b.axes; ++i) {
    if (!taken[i]) search.add(-b.strides[i], 0, b.extents[i] - 1);
  }
  search.add(1, -(b.size - 1), a.size - 1);
  return search.solve(static_cast<Wide>(at_address(b)) - static_cast<Wide>(at_address(a)), false) != Overlap::none;
}

}  // namespace phasor::job
