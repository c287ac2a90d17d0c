// SPDX-License-Identifier: Apache-2.0
// A call of the step before attention as Python hands it over: heads, and lists of arrays, integers and reals, in which
// phasor/_prepare/call.py writes what call.cpp reads, in this order. Lists, because an operator of PyTorch can carry them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "arrays/array.hpp"
#include "phasor/prepare.hpp"

namespace phasor::python {

/// Integers and reals, read one after the other.
class CallNumbers {
 public:
  CallNumbers(std::vector<std::int64_t> integers, std::vector<double> reals, const char* where = "prepare_attention")
      : integers_(std::move(integers)), reals_(std::move(reals)), where_(where) {}
  /// Raises ValueError with words that begin with the function's name.
  [[noreturn]] void refuse(const std::string& message) const;
  std::int64_t integer();
  float real();
  /// A number from 0 to `last`.
  std::int64_t up_to(std::int64_t last);
  template <class Enum>
  Enum choice(Enum last) {
    return static_cast<Enum>(up_to(static_cast<std::int64_t>(last)));
  }
  /// Whether there is one more thing of a kind: 0 or 1.
  bool flag() { return up_to(1) != 0; }
  /// ValueError where something is left over.
  void finish() const;

 private:
  std::vector<std::int64_t> integers_;
  std::vector<double> reals_;
  const char* where_;
  std::size_t at_ = 0;
  std::size_t real_at_ = 0;
};

/// The arrays of a call, which are kept while it runs, and where they are.
class CallArrays {
 public:
  CallArrays(nb::list read, nb::list written, const char* where = "prepare_attention")
      : read_(std::move(read)), written_(std::move(written)), where_(where) {}
  /// Number `index` of those that are read or written.
  const Array& get(std::int64_t index, const char* name, Access access, int most_axes = kTensorAxes);
  const Array& take(nb::handle object, const char* name, Access access, int most_axes = kTensorAxes);
  /// Heads, (B, T, H, D) or (T, H, D); None: none.
  TensorView heads(nb::handle object, const char* name, Access access = Access::read);
  Place place() const { return common_place(places_); }

 private:
  nb::list read_;
  nb::list written_;
  const char* where_;
  std::deque<Array> kept_;
  std::vector<Place> places_;
};

/// order, between, whether q has a rotary offset of its own, and that; then for q, k and v a norm; reals: query_scale, an epsilon per norm.
/// A norm is its kind (0: none, and nothing follows), over, weight_as, cast, width, and the number of its weight, -1 without.
PrepareSpec read_spec(CallNumbers& numbers, CallArrays& arrays);

/// The kind of places, on_gpu, pages_per_request, and the numbers of the lists: starts, slots, kv_indptr, kv_indices, requests, places (-1
/// without); then for q, k and v how many caches, and those. A cache is the number of its array, its storage, how many axes and which,
/// layer, first channel, and the kind of its scales (0: none). Scales are use, the number of their array (-1 without; made ones are among
/// those that are written), 1 where bytes hold float32, how many axes and which, and the group; reals: value, least.
PrepareOutputs read_outputs(CallNumbers& numbers, CallArrays& arrays);

/// One such cache, whose array is read or written.
CacheView read_cache(CallNumbers& numbers, CallArrays& arrays, const char* name, Access access);

/// A weight (D) or (H, D) as (1, 1, 1 or H, D).
ConstTensorView weight_of(Array array);

/// A list of integers, contiguous int32 or int64; -1: none.
IntegerList read_list(CallNumbers& numbers, CallArrays& arrays, const char* name);
/// The number of cos, -1 without tables; then the number of sin and the layout: width, offset, pairing, whether the output has another
/// one, and that, sense, numerics, segments. Fills a rotation's.
void read_tables(CallNumbers& numbers, CallArrays& arrays, PrepareRotation& rotation);
/// Factors (T) or (B, T) as (B, T, 1, 1); -1: none.
ConstTensorView read_factors(CallNumbers& numbers, CallArrays& arrays);

}  // namespace phasor::python
