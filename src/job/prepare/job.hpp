// SPDX-License-Identifier: Apache-2.0
// The job of prepare_attention: plain data in which every check has passed and every decision is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job/plain.hpp"
#include "job/rotary.hpp"
#include "job/specs/list.hpp"
#include "phasor/prepare.hpp"

namespace phasor::job {

/// q, k and v.
inline constexpr int kPrepareOperands = 3;
/// Heads are held whole, as float32, while they are made ready.
inline constexpr std::int64_t kMaxPreparedChannels = 4096;

/// Of a tensor of f32, f16 or bf16.
constexpr Storage storage_of(DType dtype) {
  return dtype == DType::f32 ? Storage::f32 : dtype == DType::f16 ? Storage::f16 : Storage::bf16;
}

/// Where tokens go, as TokenPlaces.
struct PlaceSource {
  TokenPlaces::Kind kind = TokenPlaces::Kind::in_order;
  std::int64_t block = 1;   // tokens of a block
  int block_shift = -1;     // log2 of it, where it is a power of two
  std::int64_t blocks = 0;  // of the caches; where they differ, the fewest
  bool checked = false;     // on a GPU: looked at before anything is written
  IntegerSource starts;
  IntegerSource slots;
  IntegerSource indptr;
  IntegerSource indices;
  IntegerSource requests;
  IntegerSource places;
  std::int64_t pages_per_request = 0;
};

/// Channels [first, first + count) of every head, stored. Strides in bytes: block, token, head, outer, inner.
struct PrepareSink {
  std::byte* data = nullptr;
  Storage storage = Storage::f32;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t inner = 1;  // channels of an outer step
  std::int64_t strides[5] = {0, 0, 0, 0, 0};
  CacheScales::Kind scales = CacheScales::Kind::none;
  bool multiplies = false;
  bool powers_of_two = false;  // made scales are ue8m0
  float scale = 1;
  std::byte* scale_data = nullptr;
  std::int64_t scale_strides[4] = {0, 0, 0, 0};  // bytes: block, token, head, group
  std::int64_t group = 1;
  float least_scale = 0;
};

struct PrepareNorm {
  HeadNorm::Kind kind = HeadNorm::Kind::none;
  bool over_all_heads = false;
  bool one_plus = false;
  bool casts_before_weight = false;
  float epsilon = 0;
  std::int64_t width = 0;
  const std::byte* weight = nullptr;
  DType weight_dtype = DType::f32;
  std::int64_t weight_head_stride = 0;  // bytes
};

/// q, k or v. Strides in bytes: batch, token, head.
struct PrepareOperand {
  const std::byte* in = nullptr;
  std::int64_t in_strides[3] = {0, 0, 0};
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_offset = 0;
  bool turns = false;
  bool scales = false;       // q: times query_scale and the token's factor
  bool placed = false;       // its tokens go to the places of the cache; else to (batch row, token)
  bool rounds_last = false;  // what is stored is rounded to the tensor's dtype before: the storage is another one, or scaled
  bool copies = false;       // nothing happens to it: elements are copied bit for bit
  PrepareNorm norm;
  PrepareSink sinks[2];
  int sink_count = 0;
};

struct PrepareJob {
  Device device;
  RotateJob turn;  // rotation without operands: pairs, pairings, numerics, dtype, batch, tokens, and the rows of the first spec
  bool rotation_first = false;
  bool kept = false;  // nothing is rounded between the steps
  PrepareOperand operands[kPrepareOperands];
  int operand_count = 0;
  float query_scale = 1;
  const float* query_factors = nullptr;
  std::int64_t factor_strides[2] = {0, 0};  // batch, token
  PlaceSource places;
  SpecList specs;  // several of them; empty: turn.rows for every token
};

PHASOR_MEMBERS(PlaceSource, kind, block, block_shift, blocks, checked, starts, slots, indptr, indices, requests, places, pages_per_request)
PHASOR_MEMBERS(PrepareSink, data, storage, first, count, inner, strides, scales, multiplies, powers_of_two, scale, scale_data,
               scale_strides, group, least_scale)
PHASOR_MEMBERS(PrepareNorm, kind, over_all_heads, one_plus, casts_before_weight, epsilon, width, weight, weight_dtype, weight_head_stride)
PHASOR_MEMBERS(PrepareOperand, in, in_strides, heads, head_dim, rotary_offset, turns, scales, placed, rounds_last, copies, norm, sinks,
               sink_count)
PHASOR_MEMBERS(PrepareJob, device, turn, rotation_first, kept, operands, operand_count, query_scale, query_factors, factor_strides, places,
               specs)

/// Whether heads have ladders or tables of their own.
inline bool has_rows_by_head(const RowSource& rows) {
  return (rows.step_head_stride | rows.tables.cos_head_stride | rows.tables.sin_head_stride) != 0;
}
/// Whether the two lanes of a pair have values of their own: per-channel frequencies, tables with a value for each channel.
inline bool has_rows_by_lane(const RowSource& rows) { return rows.step_lane_stride != 0 || rows.second_lane != 0; }

/// A view of a cache that was checked, as kernels see it.
PrepareSink sink_of(const CacheView& cache);

/// A call of prepare_attention.
struct PrepareCall {
  const PrepareInputs& inputs;
  const PrepareRotation& rotation;
  const PrepareOutputs& outputs;
  const PrepareSpec& spec;
  Direction direction = Direction::forward;  // of the rotation
};

/// `rows` has room for the rotaries of the call; used where there are several, and to live until the job has run.
Result<PrepareJob> make_prepare_job(const PrepareCall& call, std::span<RowSource> rows);

}  // namespace phasor::job
