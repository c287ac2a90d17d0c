// SPDX-License-Identifier: Apache-2.0
// A backward of attention laid out in the caller's workspace: how it is cut into blocks, where each gradient is added up, and what is done
// with the sums.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/attention/backward/backward.hpp"
#include "cuda/attention/backward/parameters.hpp"
#include "cuda/attention/layout.hpp"
#include "cuda/attention/mma/backward/call.hpp"

namespace phasor::cuda::attention {

/// Gradients of rotated queries or keys, to be turned back: sums in float32, or the caller's tensor.
struct TurnedGradients {
  const job::RotateJob* rotation;
  TensorView gradients;
  Positions at;
};

struct BackwardLayout : Layout {
  std::vector<ItemWork> before;                                    // the blocks
  std::vector<ItemWork> parts;                                     // those of keys and values, added up for each chunk of keys
  std::vector<TurnedGradients> turned;                             // then
  std::vector<ItemWork> finish;                                    // to the caller's tensors, or to diagonals
  std::vector<ParameterGradient> parameters;                       // from those
  std::vector<ItemWork> after;                                     // to the caller's
  std::optional<hopper::Backward> hopper_backward = std::nullopt;  // Hopper's own kernels do it, up to gradients by distance or of a table
  bool by_mma_backward = false;                                    // the blocks are those of mma/backward/call.hpp
  mma::backward::Limits limits = {};                               // of those
};

/// compute_major: of the device; 0: any, by the general kernels.
Status lay_out_backward(const job::AttentionBackwardJob& job, int compute_major, attend::Arena& arena, BackwardLayout& out);

/// Bytes that a call works in.
Result<int64_t> backward_workspace(const job::AttentionBackwardJob& job);

/// Says which kernels make the gradients of a call on a device of this compute capability: "by kernels for Hopper", "by mma.sync", "by
/// general kernels", with ": ..." why where tensor cores would be there, or "refused: ...". Behind it, where those of 16-bit tensors whose
/// outputs are float32 go elsewhere: ", where outputs are float32 by ...". As if nobody wanted the gradient of a bias given in full, which
/// the general kernels make where queries, keys or key heads share it.
std::string gradients_in_words(const job::AttentionJob& forward, int compute_major);

template <class Machine>
Status run_items(const BackwardLayout& layout, const std::vector<ItemWork>& items, Machine& machine) {
  for (const ItemWork& item : items) {
    if (Status s = machine.items(layout, item); !s) return s;
  }
  return {};
}

/// Keys chunk after chunk: the sums of a chunk's parts lie where those of the next will.
template <class Machine>
Status run_chunks(BackwardLayout& layout, Machine& machine) {
  KeyChunk& chunk = layout.work.backward.chunk;
  for (int64_t n = 0; n < key_chunks(layout.work); ++n) {
    chunk.first = n * chunk.keys;
    if (Status s = machine.backward(layout); !s) return s;
    if (Status s = run_items(layout, layout.parts, machine); !s) return s;
  }
  return {};
}

/// A Machine has backward(layout), of the layout's chunk, and parameters(work), too.
template <class Machine>
Status run_backward(BackwardLayout& layout, Machine& machine) {
  if (Status s = prepare(layout, machine); !s) return s;
  if (Status s = run_items(layout, layout.before, machine); !s) return s;
  if (Status s = run_chunks(layout, machine); !s) return s;
  const auto back = [&](std::size_t n) {
    const TurnedGradients& turned = layout.turned[n];
    return job::rotation_of(*turned.rotation, InOut(turned.gradients), turned.at);
  };
  for (std::size_t n = 0; n < layout.turned.size(); ++n) {
    job::RotateJob rotation = back(n);
    if (n + 1 < layout.turned.size() && job::join(back(n + 1), rotation)) ++n;
    if (Status s = machine.rotate(rotation); !s) return s;
  }
  if (Status s = run_items(layout, layout.finish, machine); !s) return s;
  for (const ParameterGradient& gradient : layout.parameters) {
    if (Status s = machine.parameters(gradient); !s) return s;
  }
  return run_items(layout, layout.after, machine);
}

template <class Machine>
Status attention_backward_on(Machine& machine, const job::AttentionBackwardJob& job, const Workspace& workspace,
                             const mma::backward::Limits& limits = {}) {
  attend::Arena arena(workspace);
  BackwardLayout layout;
  layout.limits = limits;
  if (Status s = lay_out_backward(job, machine.compute_major(), arena, layout); !s) return s;
  if (Status s = arena.check("attention_backward"); !s) return s;
  return run_backward(layout, machine);
}

}  // namespace phasor::cuda::attention
