// SPDX-License-Identifier: Apache-2.0
// A call of attention from Python: the dict that phasor/_attention.py makes of a scheme, as the library's spec, with the arrays it reads.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "arrays/arguments.hpp"
#include "phasor/attention.hpp"

namespace phasor::python {

/// Keys of the dict: content, content_shift, terms, scale, softcap, sinks, causal, left, right, prefix, query_starts, key_starts, key_mask,
/// query_positions, key_positions, skip; what is absent or None is the spec's default. Tensors of terms have four axes, as the library
/// wants.
class AttentionCall {
 public:
  explicit AttentionCall(nb::dict spec);
  /// The gradients of terms: a list of dicts (table, second, features, shift: arrays; parameters: contiguous float64), one a term, or None.
  void set_gradients(nb::handle gradients);
  /// The key mask is (B, Tk), which the library cannot see.
  void check_mask(const AttentionInputs& inputs) const;

  AttentionSpec spec = {};
  std::vector<TermGradient> gradients = {};

 private:
  ConstTensorView tensor(nb::handle object, const char* name);
  TensorView output(nb::handle object, const char* name);
  Positions positions(nb::handle object, const char* name);
  AttentionTerm term(const nb::dict& dict);
  BiasTerm bias_term(const nb::dict& dict);
  TableTerm table_term(const nb::dict& dict);
  SegmentTerm segment_term(const nb::dict& dict);
  void read_visibility(const nb::dict& dict);

  std::deque<Array> arrays_;  // a deque: those in it do not move
  std::deque<IntegersArgument> integers_;
  std::deque<RealsArgument> reals_;
  std::array<std::int64_t, 2> mask_shape_ = {0, 0};
};

}  // namespace phasor::python
