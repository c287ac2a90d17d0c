// SPDX-License-Identifier: Apache-2.0
// Checks of gradients: each against its tensor, and memory that must be apart.
#include "job/prepare/backward_check.hpp"

#include "job/overlap.hpp"
#include "job/rotation.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

std::string shape_of(const ConstTensorView& v) { return spec::format("({}, {}, {}, {})", v.shape[0], v.shape[1], v.shape[2], v.shape[3]); }

Status check_like(const char* name, const ConstTensorView& gradient, const ConstTensorView& like) {
  if (Status s = check_view(kBackward, name, gradient); !s) return s;
  if (gradient.dtype != like.dtype || gradient.shape != like.shape) {
    return error(kBackward, "{} is {} of shape {}, wanted {} of {}", name, name_of(gradient.dtype), shape_of(gradient), name_of(like.dtype),
                 shape_of(like));
  }
  return check_device(kBackward, name, gradient.device, like.device);
}

Status check_by_weight(const BackwardSide& side) {
  const TensorView& sum = side.gradient.by_weight;
  if (sum.data == nullptr) return {};
  const ConstTensorView& weight = side.norm.weight;
  if (side.norm.kind == HeadNorm::Kind::none || weight.data == nullptr) {
    return error(kBackward, "{} is given and {} has no weight, wanted both", side.by_weight, side.name);
  }
  if (Status s = check_view(kBackward, side.by_weight, sum); !s) return s;
  if (sum.dtype != DType::f32 || sum.shape != weight.shape) {
    return error(kBackward, "{} is {} of shape {}, wanted f32 of {}", side.by_weight, name_of(sum.dtype), shape_of(sum), shape_of(weight));
  }
  return check_device(kBackward, side.by_weight, sum.device, side.in.device);
}

/// A piece of memory of a call; `side` says whose it is, 0 to 2 where gradients in place are allowed.
struct BackwardPiece {
  const char* name = nullptr;
  ConstTensorView view{};
  int side = -1;
};
struct BackwardPieces {
  std::array<BackwardPiece, 10> all{};
  std::size_t count = 0;
  void add(const char* name, const ConstTensorView& view, int side = -1) {
    if (view.data != nullptr && !is_empty(view)) all[count++] = {name, view, side};
  }
};
/// What is written, then what is only read.
std::array<BackwardPieces, 2> pieces_of(const PrepareBackwardCall& call) {
  std::array<BackwardPieces, 2> pieces;
  auto& [written, read] = pieces;
  int index = 0;
  for (const BackwardSide& side : sides_of(call.inputs, call.gradients, call.spec)) {
    written.add(side.by_input, side.gradient.by_input, index);
    written.add(side.by_weight, side.gradient.by_weight);
    read.add(side.name, side.in, index);
    read.add(side.by_output, side.gradient.by_output, index);
    read.add(side.weight, side.norm.weight);
    ++index;
  }
  written.add("workspace", call.gradients.workspace);
  written.add("by_query_factors", call.gradients.by_query_factors);
  read.add("query_factors", call.inputs.query_factors);
  return pieces;
}

}  // namespace

Status check_side(const BackwardSide& side) {
  const PrepareGradient& gradient = side.gradient;
  if (!is_there(side.in)) {
    if (!is_there(gradient.by_output) && !is_there(gradient.by_input) && gradient.by_weight.data == nullptr) return {};
    return error(kBackward, "{} is not given and has a gradient, wanted both", side.name);
  }
  if (Status s = check_like(side.by_output, gradient.by_output, side.in); !s) return s;
  if (Status s = check_like(side.by_input, gradient.by_input, side.in); !s) return s;
  return check_by_weight(side);
}

Status check_by_factors(const PrepareInputs& inputs, const TensorView& by_factors) {
  constexpr const char* kName = "by_query_factors";
  if (by_factors.data == nullptr) return {};
  if (!is_there(inputs.q) || inputs.query_factors.data == nullptr) {
    return error(kBackward, "{} is given and q or query_factors are not, wanted all three", kName);
  }
  return check_like(kName, by_factors, inputs.query_factors);
}

Status check_workspace(const TensorView& workspace, std::int64_t size, Device device) {
  if (size == 0) return {};
  if (Status s = check_view(kBackward, "workspace", workspace); !s) return s;
  const auto& [one, also_one, again_one, numbers] = workspace.shape;
  if (workspace.dtype != DType::f64 || one != 1 || also_one != 1 || again_one != 1 || numbers < size) {
    return error(kBackward, "workspace is {} of shape {}, wanted f64 of (1, 1, 1, {}) at least", name_of(workspace.dtype),
                 shape_of(workspace), size);
  }
  return check_device(kBackward, "workspace", workspace.device, device);
}

Status check_backward_apart(const PrepareBackwardCall& call) {
  const auto [written, read] = pieces_of(call);
  for (const BackwardPieces* const pieces : {&written, &read}) {
    for (std::size_t p = 0; p < pieces->count; ++p) {
      if (Status s = check_view(kBackward, pieces->all[p].name, pieces->all[p].view); !s) return s;
    }
  }
  for (std::size_t w = 0; w < written.count; ++w) {
    const BackwardPiece& out = written.all[w];
    if (self_overlap(out.view) != Overlap::none) {
      return error(kBackward, "{} has strides by which elements repeat, wanted each element once", out.name);
    }
    for (std::size_t r = 0; r < read.count; ++r) {
      const BackwardPiece& in = read.all[r];
      const Overlap shared = overlap(in.view, out.view);
      if (shared == Overlap::none || (shared == Overlap::exact && in.side == out.side && out.side >= 0)) continue;
      return error(kBackward, "{} overlaps {}, wanted memory apart, or each element in its place", out.name, in.name);
    }
    for (std::size_t other = 0; other < w; ++other) {
      if (overlap(written.all[other].view, out.view) == Overlap::none) continue;
      return error(kBackward, "{} overlaps {}, wanted memory apart", out.name, written.all[other].name);
    }
  }
  return {};
}

/// Integers are no tensors: on bytes.
Status check_backward_lists(const PrepareBackwardCall& call) {
  const PrepareRotation& rotation = call.rotation;
  const BackwardPieces written = pieces_of(call)[0];
  for (std::size_t w = 0; w < written.count; ++w) {
    const BackwardPiece& out = written.all[w];
    const bool positions = rotation.positions.data != nullptr && share_bytes(strided(view_of(rotation.positions)), strided(out.view));
    const bool specs = rotation.spec_of.data != nullptr && share_bytes(bytes_of_list(rotation.spec_of), strided(out.view));
    if (positions || specs) {
      return error(kBackward, "{} overlaps {}, wanted memory apart", out.name, positions ? "positions" : "spec_of");
    }
    for (const NamedTensor& table : {NamedTensor{"cos", rotation.cos}, NamedTensor{"sin", rotation.sin}}) {
      if (table.view.data != nullptr && share_bytes(strided(table.view), strided(out.view))) {
        return error(kBackward, "{} overlaps {}, wanted memory apart", out.name, table.name);
      }
    }
  }
  return {};
}

}  // namespace phasor::job
