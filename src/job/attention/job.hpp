// SPDX-License-Identifier: Apache-2.0
// The jobs of attention: a checked call as plain data, the same for every device. How it is cut into tiles and where it works is the
// backend's to decide. Host tables are named in backend/host_tables.hpp; all other pointers are memory of the device.
#pragma once

#include <cstdint>

#include "job/attention/call.hpp"
#include "job/attention/terms.hpp"
#include "job/rotary.hpp"
#include "phasor/attention.hpp"

namespace phasor::job {

/// Where a side is; not given: queries i + Tk - Tq of their sequence, keys j.
struct SidePositions {
  bool given = false;
  Positions at = {};
};

/// A map of positions as numbers; which of them a kind has is written in phasor/position_maps.hpp.
enum class MapKind : std::uint8_t { none, rerope, leaky_rerope, self_extend, dual_chunk };
struct MapJob {
  MapKind kind = MapKind::none;
  std::int64_t window = 0;
  double factor = 1;
  std::int64_t group = 1;
  std::int64_t chunk = 0;
  std::int64_t local = 0;
  bool critical = false;
};

/// How q meets k. Rotations are whole but for what they turn: operands, batch, tokens and, of positions with one axis, those.
enum class ContentKind : std::uint8_t { plain, rotary, xpos };
struct ContentJob {
  ContentKind kind = ContentKind::plain;
  bool keys_rotated = false;  // they come so: only queries are turned
  DType dtype = DType::f32;   // of rotated copies
  RotateJob queries;          // forward
  RotateJob queries_back;     // its transpose, for gradients
  RotateJob keys;             // the same of keys; their rows differ where positions have several axes
  RotateJob keys_back;
  MapJob map;
  double gamma = 0;  // xPos
  double scale_base = 0;
};

struct VisibilityJob {
  bool causal = false;
  std::int64_t left = INT64_MAX;   // r <= left
  std::int64_t right = INT64_MAX;  // -r <= right
  Integers prefix = {};
  Integers query_starts = {};
  Integers key_starts = {};
  KeyMask key_mask = {};
};

/// What every call has.
struct AttentionJob {
  Device device;
  ConstTensorView q;
  ConstTensorView k;
  ConstTensorView v;
  ContentJob content;
  ConstTensorView content_shift;
  AttentionTermJob* terms = nullptr;  // host table, whose terms have host tables of their own
  std::int64_t term_count = 0;
  double scale = 1;
  double softcap = 0;
  ConstTensorView sinks;
  VisibilityJob visibility;
  SidePositions query_positions;
  SidePositions key_positions;
  bool certified_skip = false;
  Dropout dropout = {};
  AttentionOutputs outputs = {};  // of the forward
};

/// Gradients of terms are in the terms; what is empty is not wanted.
struct AttentionBackwardJob {
  AttentionJob forward;
  AttentionSaved saved = {};
  TensorView q;
  TensorView k;
  TensorView v;
  TensorView content_shift;
  TensorView sinks;
  bool deterministic = true;
};

struct AttentionWeightsJob {
  AttentionJob forward;  // its values are not read
  AttentionRows rows = {};
  AttentionWeights weights = {};
};

struct MergeJob {
  Device device;
  const AttentionPart* parts = nullptr;  // host table
  std::int64_t part_count = 0;
  AttentionOutputs outputs = {};
};

/// As of the inputs (call.hpp).
inline AttentionShape shape_of(const AttentionJob& job) { return shape_of(AttentionInputs{job.q, job.k, job.v}); }

PHASOR_MEMBERS(SidePositions, given, at)
PHASOR_MEMBERS(MapJob, kind, window, factor, group, chunk, local, critical)
PHASOR_MEMBERS(ContentJob, kind, keys_rotated, dtype, queries, queries_back, keys, keys_back, map, gamma, scale_base)
PHASOR_MEMBERS(VisibilityJob, causal, left, right, prefix, query_starts, key_starts, key_mask)
PHASOR_MEMBERS(AttentionJob, device, q, k, v, content, content_shift, terms, term_count, scale, softcap, sinks, visibility, query_positions,
               key_positions, certified_skip, dropout, outputs)
PHASOR_MEMBERS(AttentionBackwardJob, forward, saved, q, k, v, content_shift, sinks, deterministic)
PHASOR_MEMBERS(AttentionWeightsJob, forward, rows, weights)
PHASOR_MEMBERS(MergeJob, device, parts, part_count, outputs)

}  // namespace phasor::job
