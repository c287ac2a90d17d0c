// SPDX-License-Identifier: Apache-2.0
// A call of attention from Python: a planned scheme and the dict of its tensors, as the library's spec, with the arrays it reads.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "arrays/arguments.hpp"
#include "phasor/scheme.hpp"

namespace phasor::python {

/// Keys of the dict: terms, a list with a dict for each term (table, second, features, shift, parameters, query_segments, key_segments);
/// content_shift, sinks, prefix, query_starts, key_starts, key_mask, query_positions, key_positions, dropout_seed (two int64: seed and
/// offset), dropout_first_head and dropout_first_sequence (integers: of the whole, for the first of a shard). What is absent is not given.
/// Tensors of terms have four axes, as the library wants.
class AttentionCall {
 public:
  AttentionCall(const Attention& plan, const nb::dict& tensors);
  /// The gradients of terms: a list of dicts (table, second, features, shift, parameters), one per term, or None.
  void set_gradients(nb::handle gradients);
  /// The key mask is (B, Tk), which the library cannot see.
  void check_mask(std::int64_t batch, std::int64_t keys, const char* where = "attention") const;
  /// Where its arrays are, those of gradients included.
  Place place() const;

  AttentionSpec spec = {};
  std::vector<TermGradient> gradients = {};

 private:
  ConstTensorView tensor(const nb::dict& dict, const char* name);
  TensorView output(const nb::dict& dict, const char* name);
  Positions positions(nb::handle object, const char* name);
  TermTensors term(const nb::dict& dict);
  KeyMask key_mask(nb::handle mask);

  std::deque<Array> arrays_;  // a deque: those in it do not move
  std::deque<IntegersArgument> integers_;
  std::array<std::int64_t, 2> mask_shape_ = {0, 0};
};

}  // namespace phasor::python
