// SPDX-License-Identifier: Apache-2.0
// Logarithms that are only compared with whole numbers, decided by powers of whole numbers. No libm: its last bit decides a bucket wherever
// a ratio is a whole power of another, and differs between machines.
#pragma once

#include <cstdint>
#include <vector>

namespace phasor::attend::reference {

/// A whole number above 0 of any size, only to be multiplied and compared.
class Whole {
 public:
  void multiply(std::int64_t factor) {
    std::uint64_t carry = 0;
    for (std::uint64_t& digit : digits_) {
      const Twice product = static_cast<Twice>(digit) * static_cast<std::uint64_t>(factor) + carry;
      digit = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    if (carry != 0) digits_.push_back(carry);
  }

  friend bool operator<=(const Whole& a, const Whole& b) {
    if (a.digits_.size() != b.digits_.size()) return a.digits_.size() < b.digits_.size();
    for (std::size_t n = a.digits_.size(); n-- > 0;) {
      if (a.digits_[n] != b.digits_[n]) return a.digits_[n] < b.digits_[n];
    }
    return true;
  }

 private:
  __extension__ typedef unsigned __int128 Twice;
  std::vector<std::uint64_t> digits_ = {1};  // to the base 2^64, the lowest first, the highest not 0
};

/// A fraction of whole numbers above 0.
struct Ratio {
  std::int64_t top;
  std::int64_t bottom;
};

/// n ln(x) / ln(step) between whole numbers, for x >= 1 and step > 1; both at most `most`.
struct Between {
  std::int64_t floor;
  std::int64_t ceil;
};
inline Between scaled_logarithm(std::int64_t n, Ratio x, Ratio step, std::int64_t most) {
  Whole left;   // step^k, and
  Whole right;  // x^n, both times the bottoms of either: whole numbers
  for (std::int64_t i = 0; i < n; ++i) {
    left.multiply(x.bottom);
    right.multiply(x.top);
  }
  Between k = {-1, 0};
  while (k.floor < most && left <= right) {  // step^k <= x^n for k = floor + 1
    ++k.floor;
    if (right <= left) return {k.floor, k.floor};
    left.multiply(step.top);
    right.multiply(step.bottom);
  }
  k.ceil = k.floor < most ? k.floor + 1 : most;
  return k;
}

}  // namespace phasor::attend::reference
