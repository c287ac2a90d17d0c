// SPDX-License-Identifier: Apache-2.0
// From a problem of the reference of attention to a call of the library, and back: outputs and gradients as the reference has them.
#pragma once

#include <memory>
#include <vector>

#include "attention/support/bridge_store.hpp"
#include "phasor/attention.hpp"

namespace phasor::test {

class SchemeBridge;

/// How q, k, v, out and their gradients lie in memory.
enum class Order : std::uint8_t { tokens_first, heads_first };

/// Set where tables and other learned numbers are held in the dtype of the call, not in float32: as models are trained.
inline bool parameters_are_narrow = false;

/// Owns every tensor of a call. What it holds may be changed before the call: spec, inputs, outputs, gradients. Throws
/// std::invalid_argument for what the library does not have (xPos with rotated keys, Transformer-XL's u beside a rotation).
/// Hold its results against the reference's of `problem`, whose numbers are those that the tensors have after rounding.
class Bridge {
 public:
  Bridge(const ref::Problem& given, DType dtype, Order order = Order::tokens_first);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  const ref::Problem problem;
  AttentionInputs inputs;
  AttentionSpec spec;
  AttentionOutputs outputs;
  AttentionGradients gradients;  // all of them, cleared at first; empty what is not wanted

  Status forward();
  /// From what forward gave; (B, Tq, H, Dv) and (B, H, Tq), empty: zeros.
  Status backward(const ref::Values& out_gradient, const ref::Values& lse_gradient = {});

  /// As the reference has them.
  ref::Output output() const;
  ref::Gradients reference_gradients();

 private:
  Seen seen(const Extents& s) const;
  Seen out_seen() const;
  Seen lse_seen() const;
  ConstTensorView held(const ref::Values& values, const Seen& to);
  TensorView cleared(const Extents& shape);
  void make_inputs();
  void make_spec();
  void make_outputs();
  void make_gradients();
  std::span<std::byte> workspace(std::int64_t bytes);

  DType dtype_;
  Order order_;
  std::unique_ptr<SchemeBridge> schemes_;
  Store store_;
  Numbered* lse_ = nullptr;
  Numbered* sink_gradient_ = nullptr;  // null: there are no sinks
  TensorView q_gradient_, k_gradient_, v_gradient_;
  ref::Gradients own_;
  std::vector<std::byte> workspace_;
};

}  // namespace phasor::test
