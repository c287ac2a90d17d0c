// SPDX-License-Identifier: Apache-2.0
#include "rope.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace phasor_ggml {
namespace {

/// Where each parameter lies in a node's op_params, in words of 32 bits: ggml's functions that make the node write them so.
enum Word {
  kWidth = 1,
  kMode = 2,
  kOriginalLength = 4,
  kBase = 5,
  kScale,
  kExtension,
  kAttention,
  kBetaFast,
  kBetaSlow,
  kSections = 11,
  kOffset = 15
};

float real(const ggml_tensor& node, int word) {
  float value = 0;
  std::memcpy(&value, node.op_params + word, sizeof value);
  return value;
}

Rope parameters(const ggml_tensor& node) {
  Rope rope;
  rope.head_dim = node.ne[0];
  rope.width = node.op_params[kWidth];
  rope.mode = node.op_params[kMode];
  rope.original_length = node.op_params[kOriginalLength];
  rope.base = real(node, kBase);
  rope.scale = real(node, kScale);
  rope.extension = real(node, kExtension);
  rope.attention = real(node, kAttention);
  rope.beta_fast = real(node, kBetaFast);
  rope.beta_slow = real(node, kBetaSlow);
  if (rope.has_axes()) std::copy_n(node.op_params + kSections, rope.sections.size(), rope.sections.begin());
  rope.offset = node.op_params[kOffset];
  rope.has_factors = node.src[2] != nullptr;
  return rope;
}

bool fits_mode(const Rope& rope) {
  switch (rope.mode) {
    case GGML_ROPE_TYPE_NORMAL:
    case GGML_ROPE_TYPE_NEOX:
      return true;
    case GGML_ROPE_TYPE_VISION:
      if (rope.offset != 0 || 2 * static_cast<std::int64_t>(rope.width) != rope.head_dim) return false;
      break;
    case GGML_ROPE_TYPE_MROPE:
    case GGML_ROPE_TYPE_IMROPE:
      break;
    default:
      return false;
  }
  // Sections that are all 0 have no pair to give out; ggml stops the program there.
  std::int64_t sum = 0;
  for (const std::int32_t section : rope.sections) {
    if (section < 0) return false;
    sum += section;
  }
  return sum > 0 && sum <= rope.head_dim;
}

/// YaRN's ramp takes logarithms of these, and divides by that of the base.
bool fits_ramp(const Rope& rope) {
  return rope.extension == 0 || (rope.base != 1 && rope.original_length > 0 && rope.beta_fast > 0 && rope.beta_slow > 0);
}

/// 0 stands for a default in Phasor's C API, and never here.
bool fits_numbers(const Rope& rope) {
  for (const float number : {rope.base, rope.scale, rope.extension, rope.attention, rope.beta_fast, rope.beta_slow}) {
    if (!std::isfinite(number)) return false;
  }
  return rope.base > 0 && rope.scale > 0 && rope.attention > 0 && rope.width > 0 && rope.width % 2 == 0 && rope.offset >= 0 &&
         fits_ramp(rope);
}

/// Channels side by side, everything else whole elements apart.
bool fits_values(const ggml_tensor& tensor) {
  if (tensor.type != GGML_TYPE_F32 && tensor.type != GGML_TYPE_F16) return false;
  const std::size_t size = ggml_type_size(tensor.type);
  return tensor.nb[0] == size && std::all_of(tensor.nb, tensor.nb + GGML_MAX_DIMS, [size](std::size_t bytes) { return bytes % size == 0; });
}

bool fits_positions(const ggml_tensor* positions, std::int64_t wanted) {
  return positions != nullptr && positions->type == GGML_TYPE_I32 && ggml_is_contiguous(positions) && ggml_nelements(positions) == wanted;
}

bool fits_factors(const ggml_tensor* factors, std::int64_t pairs) {
  return factors == nullptr || (factors->type == GGML_TYPE_F32 && ggml_is_contiguous(factors) && factors->ne[0] >= pairs);
}

}  // namespace

std::optional<Rope> read_rope(const ggml_tensor& node) {
  const ggml_tensor* in = node.src[0];
  if (in == nullptr || in->type != node.type || !ggml_are_same_shape(in, &node) || !fits_values(*in) || !fits_values(node))
    return std::nullopt;
  const Rope rope = parameters(node);
  if (!fits_numbers(rope) || !fits_mode(rope)) return std::nullopt;
  if (!fits_positions(node.src[1], node.ne[2] * (rope.has_axes() ? 4 : 1)) || !fits_factors(node.src[2], rope.pairs())) return std::nullopt;
  return rope;
}

}  // namespace phasor_ggml
