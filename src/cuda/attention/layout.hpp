// SPDX-License-Identifier: Apache-2.0
// A job of attention laid out in the caller's workspace: what kernels get, and what is put there before they run. Nothing of it reads
// memory of the device.
#pragma once

#include <optional>
#include <vector>

#include "cuda/attention/hopper_call.hpp"
#include "cuda/attention/item.hpp"
#include "cuda/attention/weights.hpp"
#include "job/attention/make_job.hpp"
#include "job/memory/arena.hpp"

namespace phasor::cuda::attention {

inline int64_t element_count(const Extents& s) { return s[0] * s[1] * s[2] * s[3]; }

/// A rotated copy of queries or keys.
struct RotatedCopy {
  MapSide side;
  int content;
  const job::RotateJob* rotation;
  const job::RotateJob* back;
  ConstTensorView from;
  TensorView to;  // of float32 where `from` has another dtype than `dtype`
  DType dtype;    // that its numbers are rounded to
  Positions at;
  ItemWork positions;  // that fills them; count 0: they are the caller's
};

struct Layout {
  AttentionWork work;
  int64_t most_keys = 0;  // of a sequence by key_starts, said before it is laid out; 0: as many as there are
  DType arithmetic = DType::f32;
  std::vector<std::byte> tables;  // lists of the host, as they will lie in the workspace
  std::byte* tables_at = nullptr;
  std::vector<RotatedCopy> copies;
  std::vector<ItemWork> items;                           // parameters first, then diagonals
  std::optional<hopper::Forward> hopper = std::nullopt;  // the forward is Hopper's own kernel's
  void* hopper_workspace = nullptr;
  bool by_mma = false;  // the forward is that of mma/call.hpp
};

Status lay_out(const job::AttentionJob& job, const char* where, attend::Arena& arena, Layout& out);
/// What a forward needs besides, and by which kernel. compute_major: of the device; 0: any, by the general kernels.
void lay_out_forward(attend::Arena& arena, int compute_major, Layout& out);

inline job::RotateJob rotation_of(const RotatedCopy& copy) {
  const bool widened = copy.to.dtype != copy.from.dtype;
  return job::rotation_of(*copy.rotation, widened ? InOut(copy.to) : InOut(copy.from, copy.to), copy.at);
}
/// q and k by one launch where one has both.
template <class Machine>
Status rotate_copies(const Layout& layout, Machine& machine) {
  for (std::size_t n = 0; n < layout.copies.size(); ++n) {
    const RotatedCopy& copy = layout.copies[n];
    const int64_t count = element_count(copy.from.shape);
    if (Status s = machine.items(layout, copy.positions); !s) return s;
    if (copy.to.dtype != copy.from.dtype) {
      if (Status s = machine.items(layout, {.kind = ItemKind::copy, .count = count, .from = copy.from, .copy = copy.to}); !s) return s;
    }
    job::RotateJob rotation = rotation_of(copy);
    const bool is_whole = copy.from.dtype == copy.dtype;  // neither widened before nor rounded after
    if (is_whole && n + 1 < layout.copies.size() && layout.copies[n + 1].from.dtype == copy.dtype) {
      if (job::join(rotation_of(layout.copies[n + 1]), rotation)) ++n;
    }
    if (Status s = machine.rotate(rotation); !s) return s;
    if (copy.to.dtype == copy.dtype) continue;
    if (Status s = machine.items(layout, {.kind = ItemKind::round, .count = count, .copy = copy.to, .rounded = copy.dtype}); !s) return s;
  }
  return {};
}

/// Puts everything there that blocks read. A Machine has put(bytes, to), items(layout, item), rotate(job).
template <class Machine>
Status prepare(const Layout& layout, Machine& machine) {
  if (Status s = machine.put(layout.tables, layout.tables_at); !s) return s;
  for (const ItemWork& item : layout.items) {
    if (Status s = machine.items(layout, item); !s) return s;
  }
  return rotate_copies(layout, machine);
}

/// Tables, copies, blocks, and the merge of their parts. A Machine has forward(layout), and compute_major(), too.
template <class Machine>
Status run_forward(const Layout& layout, Machine& machine) {
  if (Status s = prepare(layout, machine); !s) return s;
  if (Status s = machine.forward(layout); !s) return s;
  const AttentionWork& work = layout.work;
  if (work.partial.splits == 1) return {};
  const int64_t rows = work.shape.batch * work.shape.queries * work.shape.heads;
  return machine.items(layout, {.kind = ItemKind::merge, .count = rows * most(1, work.shape.value_width)});
}

/// Bytes that a call works in, on whatever device.
Result<int64_t> forward_workspace(const job::AttentionJob& job);
/// The same of a call whose sequences have at most so many keys.
Result<int64_t> forward_workspace(const job::AttentionJob& job, int64_t most_keys);

template <class Machine>
Status attention_on(Machine& machine, const job::AttentionJob& job, const Workspace& workspace, int64_t most_keys = 0) {
  attend::Arena arena(workspace);
  Layout layout;
  layout.most_keys = most_keys;
  if (Status s = lay_out(job, "attention", arena, layout); !s) return s;
  lay_out_forward(arena, machine.compute_major(), layout);
  if (Status s = arena.check("attention"); !s) return s;
  return job::is_empty(job.outputs.out) ? Status() : run_forward(layout, machine);
}

Result<int64_t> weights_workspace(const job::AttentionWeightsJob& job);

/// A Machine has weights(layout, work).
template <class Machine>
Status weights_on(Machine& machine, const job::AttentionWeightsJob& job, const Workspace& workspace) {
  attend::Arena arena(workspace);
  Layout layout;
  if (Status s = lay_out(job.forward, "attention_weights", arena, layout); !s) return s;
  if (Status s = arena.check("attention_weights"); !s) return s;
  if (job::is_empty(job.weights.weights)) return {};
  if (Status s = prepare(layout, machine); !s) return s;
  return machine.weights(layout, WeightsWork{layout.work, job.rows, job.weights});
}

/// What the general kernels would do, and which other kernel a device of this compute capability takes in their place.
Result<AttentionReport> explain(const job::AttentionJob& job, int compute_major);

}  // namespace phasor::cuda::attention
