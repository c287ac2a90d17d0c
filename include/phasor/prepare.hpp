// SPDX-License-Identifier: Apache-2.0
// prepare_attention: from what a projection gives to what attention reads, in one pass: norm of heads, rotation, temperature, quantisation,
// and the write to a cache of any layout.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "phasor/cache.hpp"
#include "phasor/execution.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

/// A norm of heads, in float32. rms: x / sqrt(mean(x^2) + epsilon); l2: x / sqrt(sum(x^2) + epsilon). (Llama 4 calls its rms without a
/// weight L2.) The sum is in one order, whatever the device; sqrt, 1 / sqrt and the mean are each rounded correctly.
struct HeadNorm {
  enum class Kind : std::uint8_t { none, rms, l2 };
  enum class Over : std::uint8_t { head, all_heads };              // what is summed: each head by itself, or all heads of a token
  enum class Weight : std::uint8_t { plain, one_plus };            // w, or 1 + w (Gemma, Qwen3-Next)
  enum class Cast : std::uint8_t { after_weight, before_weight };  // before: rounded to the tensor's dtype, then times w (Llama, Qwen 3)
  Kind kind = Kind::none;
  Over over = Over::head;
  Weight weight_as = Weight::plain;
  Cast cast = Cast::after_weight;
  float epsilon = 1e-6F;
  ConstTensorView weight{};  // (1, 1, 1 or heads, width); null data: none
  std::int64_t width = 0;    // the first channels of a head, which alone are normed; 0: all
};

/// What happens to a head on its way. Each step's result is rounded to the tensor's dtype, as if the steps were calls of their own, unless
/// `between` keeps float32 until the last one.
struct PrepareSpec {
  enum class Order : std::uint8_t { norm_first, rotation_first };
  enum class Between : std::uint8_t { rounded, kept };
  HeadNorm q_norm{};
  HeadNorm k_norm{};
  HeadNorm v_norm{};
  Order order = Order::norm_first;
  Between between = Between::rounded;
  float query_scale = 1;  // factor on q, last
  std::optional<std::int64_t> q_rotary_offset =
      std::nullopt;  // first rotated channel of q where it is not k's (MLA); its head_dim may differ then
};

/// Heads of a projection: (B, T, H, D) each, any strides, f32, f16 or bf16, all of one dtype. Shape 0: not there.
struct PrepareInputs {
  ConstTensorView q{};
  ConstTensorView k{};
  ConstTensorView v{};
  ConstTensorView query_factors{};  // (B, T, 1, 1), f32: factors on q by token, times query_scale (a temperature); null data: 1
};
/// q, k and v of a packed row (B, T, 1, (H + 2 Hk) D) from its channel `first` on; what else the row has is left alone.
struct PackedHeads {
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t first = 0;
};
PrepareInputs unpack_qkv(const ConstTensorView& packed, const PackedHeads& heads);

/// q and k are rotated by one spec, or by the one of `rotaries` that `spec_of` names, for each batch row (B of them) or each token (B T).
/// Specs of one call agree in all but base, scaling and the axes' ladders. No rotaries: not rotated. Without norms and in place (outputs
/// are tensor_cache of the inputs) this is apply_rotaries (but a GPU may give a NaN other bits).
/// Instead of rotaries: by given tables, as apply_rotary takes them; positions and spec_of are not looked at then. `layout` is k's where q
/// has an offset of its own; its rotary_width of 0 is k's head_dim, or q's where there is no k.
struct PrepareRotation {
  std::span<const Rotary> rotaries{};
  Positions positions{};
  IntegerList spec_of{};
  ConstTensorView cos{};  // (B or 1, T, 1 or H, R/2 or R), f32, f16 or bf16; null data: not given
  ConstTensorView sin{};
  TableLayout layout{};
};

/// Where the results go: q token by token (tensor_cache of its own input: in place), k and v to their places in caches.
struct PrepareOutputs {
  CacheParts q{};
  CacheParts k{};
  CacheParts v{};
  TokenPlaces places{};
};

/// Norm, rotation, scale and storage of the heads of every token, on CPU or CUDA, with the same bits. Nothing is written when it fails;
/// outputs must not share memory but for the parts of one cache, nor lie over inputs but in place: each token where it was. Does not
/// allocate for one spec unless slots do not rise (then one number per token).
Status prepare_attention(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs,
                         const PrepareSpec& spec = {}, const Execution& execution = {});

// ---- Gradients ----

/// Of q, k or v: the gradient by what prepare_attention made of it, and where the gradients by it and by its norm's weight go.
struct PrepareGradient {
  ConstTensorView by_output{};  // shape and dtype of the input, any strides
  TensorView by_input{};        // the same, written: may be the memory of by_output or of the input itself, each element in its place
  TensorView by_weight{};       // f32, shape of the weight, written; null data: not wanted
};
struct PrepareGradients {
  PrepareGradient q{};
  PrepareGradient k{};
  PrepareGradient v{};
  TensorView workspace{};         // (1, 1, 1, at least what prepare_attention_backward_workspace says), f64; not needed where that is 0
  TensorView by_query_factors{};  // f32, shape of query_factors, written; null data: not wanted
};

/// Numbers of float64 that prepare_attention_backward works in: none but for gradients by weights or query_factors and norms over all
/// heads.
Result<std::int64_t> prepare_attention_backward_workspace(const PrepareInputs& inputs, const PrepareGradients& gradients,
                                                          const PrepareSpec& spec = {});

/// Gradients of prepare_attention for training, from its inputs alone, on CPU or CUDA, with the same bits for any number of threads.
/// Inputs, rotation and spec as there, outputs in the tensors' dtype. Roundings pass gradients on as they are; each step's gradient is
/// rounded to the tensor's dtype unless `between` keeps float32. Without a norm this is Rotary::apply, transposed, and the input's memory
/// is not read (unless by_query_factors is wanted): by_output may be given in its place. A gradient by a weight or by a token's factor is
/// a sum in float64, in one order, rounded once. Nothing is written when it fails; what is written must not share memory but as
/// PrepareGradient says. Does not allocate for one spec.
Status prepare_attention_backward(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients,
                                  const PrepareSpec& spec = {}, const Execution& execution = {});

}  // namespace phasor
