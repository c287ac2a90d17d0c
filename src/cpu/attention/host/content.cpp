// SPDX-License-Identifier: Apache-2.0
// How q meets k: as given, or in rotated copies; xPos's factors; the shift of queries; and the way back of gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/run.hpp"
#include "job/attention/make_job.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "math/pairing.hpp"
#include "plan/attention.hpp"

namespace phasor::attend {
namespace {

using job::error;

enum class Which : std::uint8_t { queries, keys };

/// Natural logarithms of xPos's factors within a tile, at most: e^32 and its inverse leave float32 room on both sides.
constexpr double kMostDecay = 32;

/// Positions of one side as the job has them.
Positions positions_of(const AttentionJob& job, Which which) {
  const bool queries = which == Which::queries;
  const std::int64_t stride = queries ? job.query_position_stride : job.key_position_stride;
  const std::int64_t tokens = queries ? job.shape.queries : job.shape.keys;
  return {.data = queries ? job.query_positions : job.key_positions,
          .type = PositionType::i64,
          .shape = {1, stride == 0 ? 1 : job.shape.batch, tokens},
          .strides = {0, stride, 1}};
}

/// Where a side is rotated: at the caller's positions where they have several axes, else at the job's.
Positions rotary_positions(const Call& call, const AttentionJob& job, Which which) {
  const job::SidePositions& side = which == Which::queries ? call.asked->query_positions : call.asked->key_positions;
  return side.given && side.at.data != nullptr && side.at.shape[0] > 1 ? side.at : positions_of(job, which);
}

/// The same for a pass of a map.
Status pass_positions(const PositionMap& map, const MapPass& pass, Positions at, Arena& arena, Positions& out) {
  const bool fractions = std::holds_alternative<LeakyReRope>(map) && pass.pass == 1;
  const std::int64_t count = at.shape[1] * at.shape[2];
  const PositionsView view = {.data = arena.take<std::int64_t>(count),
                              .type = fractions ? PositionType::f64 : PositionType::i64,
                              .shape = at.shape,
                              .strides = {count, at.shape[2], 1}};
  out = view;
  return view.data == nullptr || count == 0 ? Status() : fill_pass_positions(view, map, pass, at);
}

// ---- Copies ----

/// A tensor in float32, whose last axis is contiguous; exact.
void widen(const ConstTensorView& from, const TensorView& to, const Runner& runner) {
  const auto [batch, tokens, heads, channels] = from.shape;
  run_each(runner, batch * tokens, [&, tokens = tokens, heads = heads, channels = channels](std::int64_t n) {
    const std::int64_t b = n / tokens;
    const std::int64_t t = n % tokens;
    for (std::int64_t h = 0; h < heads; ++h) {
      float* const out = static_cast<float*>(to.data) + b * to.strides[0] + t * to.strides[1] + h * to.strides[2];
      const std::int64_t at = b * from.strides[0] + t * from.strides[1] + h * from.strides[2];
      job::with_element(from.dtype, [&](auto tag) {
        const auto* const in = static_cast<const typename decltype(tag)::type*>(from.data) + at;
        for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<float>(job::number_of(in[c]));
      });
    }
  });
}

/// By the CPU's own function: the public one would choose a backend.
Status rotate(const job::RotateJob& rotation, const InOut& x, const Positions& at, const Runner& runner) {
  job::RotateJob job = job::rotation_of(rotation, x, at);
  return cpu::run_rotate(job, {.runner = runner});
}

/// Numbers of float32, contiguous, become the nearest ones of 16 bits.
void round_numbers(DType dtype, const TensorView& x, const Runner& runner) {
  const std::int64_t row = x.shape[2] * x.shape[3];
  run_each(runner, x.shape[0] * x.shape[1], [&](std::int64_t n) {
    auto* const numbers = static_cast<float*>(x.data) + n * row;
    job::with_element(dtype, [&](auto tag) {
      using Element = typename decltype(tag)::type;
      for (std::int64_t c = 0; c < row; ++c) numbers[c] = static_cast<float>(job::number_of(job::element_of<Element>(numbers[c])));
    });
  });
}

struct Rotation {
  const job::RotateJob* rotation;
  ConstTensorView from;
  DType dtype;  // that numbers are rounded to
  Positions at;
};
/// A tensor of another dtype (xPos's; keys that were decoded, and q beside them) has a copy in float32.
Status rotated_copy(const Rotation& r, const Runner& runner, Arena& arena, ConstTensorView& out) {
  const Extents& s = r.from.shape;
  const DType dtype = r.dtype == r.from.dtype ? r.dtype : DType::f32;
  const TensorView copy = {arena.take_bytes(s[0] * s[1] * s[2] * s[3] * bytes_of(dtype)), dtype, s, contiguous_strides(s)};
  out = copy;
  if (copy.data == nullptr || job::is_empty(r.from)) return {};
  const bool widened = dtype != r.from.dtype;
  if (widened) widen(r.from, copy, runner);
  if (Status status = rotate(*r.rotation, widened ? InOut(copy) : InOut(r.from, copy), r.at, runner); !status) return status;
  if (dtype != r.dtype) round_numbers(r.dtype, copy, runner);
  return {};
}

// ---- xPos ----

/// ln(zeta) / scale_base of every channel, 0 outside the rotary width.
std::vector<double> log_zeta(const job::ContentJob& content, std::int64_t padded_width) {
  const job::RotateJob& rotation = content.queries;
  const bool interleaved = rotation.write == Pairing::interleaved;
  std::vector<double> result(static_cast<std::size_t>(padded_width), 0);
  for (std::int64_t p = 0; p < rotation.pairs; ++p) {
    const double log = plan::xpos_log_zeta(p, rotation.pairs, content.gamma);
    for (const std::int64_t lane : {0, 1}) {
      const std::int64_t channel = rotation.offset + math::channel_of(p, lane, rotation.pairs, interleaved);
      result[static_cast<std::size_t>(channel)] = log / content.scale_base;
    }
  }
  return result;
}

/// Multiplies x, (B, T, H, D) of T, by exp(sign log_zeta (position - that of its tile)): what the copies hold, and their gradients need.
template <class T>
void multiply_decay(const TensorView& x, const Prepared& prepared, Which which, const Runner& runner) {
  const AttentionJob& job = prepared.job;
  const bool queries = which == Which::queries;
  const std::span<const TokenTile> tiles = queries ? job.query_tiles : job.key_tiles;
  const Positions at = positions_of(job, which);
  run_each(runner, static_cast<std::int64_t>(tiles.size()), [&](std::int64_t n) {
    const TokenTile& tile = tiles[static_cast<std::size_t>(n)];
    const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
    for (std::int64_t t = tile.first; t < tile.first + tile.count; ++t) {
      const std::int64_t place = static_cast<const std::int64_t*>(at.data)[batch * at.strides[1] + t] - tile.min_position;
      T* const row = static_cast<T*>(x.data) + batch * x.strides[0] + t * x.strides[1];
      for (std::int64_t c = 0; c < x.shape[3]; ++c) {
        const double log = prepared.log_zeta[static_cast<std::size_t>(c)];
        if (log == 0 || place == 0) continue;
        const auto factor = static_cast<T>(plan::decay_factor(queries ? log : -log, static_cast<double>(place)));
        for (std::int64_t h = 0; h < x.shape[2]; ++h) row[h * x.strides[2] + c] *= factor;
      }
    }
  });
}

TensorView writable(const ConstTensorView& v) { return {const_cast<void*>(v.data), v.dtype, v.shape, v.strides}; }

// ---- Contents ----

/// Which pass a score takes.
void make_rule(const job::MapJob& map, AttentionJob& job) {
  job.content_count = passes_of(job::position_map_of(map));
  const bool chunks = map.kind == job::MapKind::dual_chunk;
  job.rule = chunks ? ContentRule::chunk : ContentRule::window;
  job.rule_size = chunks ? map.chunk - map.local : map.window;
}

Status make_rotary(const Call& call, Arena& arena, Prepared& out) {
  const job::ContentJob& content = call.asked->content;
  AttentionJob& job = out.job;
  const bool mapped = content.map.kind != job::MapKind::none;
  if (mapped) make_rule(content.map, job);
  for (int c = 0; c < job.content_count; ++c) {
    ContentPositions& at = out.rotated_at[c];
    at = {rotary_positions(call, job, Which::queries), rotary_positions(call, job, Which::keys)};
    if (mapped) {
      const PositionMap map = job::position_map_of(content.map);
      if (Status s = pass_positions(map, {c, MapSide::queries}, at.queries, arena, at.queries); !s) return s;
      if (Status s = pass_positions(map, {c, MapSide::keys}, at.keys, arena, at.keys); !s) return s;
    }
    const Rotation of_q = {&content.queries, job.q, content.dtype, at.queries};
    const Rotation of_k = {&content.keys, job.k, content.dtype, at.keys};
    job.contents[c] = {job.q, job.k};
    if (Status s = rotated_copy(of_q, *call.runner, arena, job.contents[c].q); !s) return s;
    if (content.keys_rotated) continue;
    if (job.rule == ContentRule::chunk && c > 0) {
      job.contents[c].k = job.contents[0].k;  // a dual chunk has its keys at one place for every pass
    } else if (Status s = rotated_copy(of_k, *call.runner, arena, job.contents[c].k); !s) {
      return s;
    }
  }
  return {};
}

Status make_xpos(const Call& call, Arena& arena, Prepared& out) {
  const job::ContentJob& content = call.asked->content;
  AttentionJob& job = out.job;
  out.log_zeta = log_zeta(content, job.shape.padded_width);
  job.decay = {.present = true, .log_zeta = out.log_zeta.data()};
  out.rotated_at[0] = {rotary_positions(call, job, Which::queries), rotary_positions(call, job, Which::keys)};
  const Rotation of_q = {&content.queries, job.q, content.dtype, out.rotated_at[0].queries};
  const Rotation of_k = {&content.keys, job.k, content.dtype, out.rotated_at[0].keys};
  if (Status s = rotated_copy(of_q, *call.runner, arena, job.contents[0].q); !s) return s;
  if (Status s = rotated_copy(of_k, *call.runner, arena, job.contents[0].k); !s) return s;
  if (job.contents[0].k.data == nullptr) return {};
  with_arithmetic(job.arithmetic, [&](auto type) {
    multiply_decay<decltype(type)>(writable(job.contents[0].q), out, Which::queries, *call.runner);
    multiply_decay<decltype(type)>(writable(job.contents[0].k), out, Which::keys, *call.runner);
  });
  return {};
}

/// Maps are for positions from 0 on.
Status check_map_positions(const Call& call, const Prepared& out) {
  if (call.asked->content.map.kind == job::MapKind::none) return {};
  for (const auto& [name, tiles] : {std::pair{"q", &out.query_tiles}, {"k", &out.key_tiles}}) {
    for (const TokenTile& tile : *tiles) {
      if (tile.min_position >= 0) continue;
      return error(call.where, "content has a map and {} has position {}, wanted none below 0", name, tile.min_position);
    }
  }
  return {};
}

void make_shift(const ConstTensorView& v, Arena& arena, Prepared& out) {
  if (v.data == nullptr) return;
  const AttentionShape& s = out.job.shape;
  void* const shift = arena.take_bytes(s.heads * s.padded_width * bytes_of(out.job.arithmetic));
  out.job.content_shift = shift;
  if (shift == nullptr) return;
  for (std::int64_t n = 0; n < s.heads * s.padded_width; ++n) {
    const std::int64_t h = v.shape[2] == 1 ? 0 : n / s.padded_width;
    const std::int64_t c = n % s.padded_width;
    const double x = c < s.width ? job::load_element(v.data, v.dtype, h * v.strides[2] + c * v.strides[3]) : 0;
    job::store_element(shift, out.job.arithmetic, n, x);
  }
}

// ---- The way back ----

/// sum += x, both of `count` T.
template <class T>
void add_all(const T* x, std::int64_t count, T* sum, const Runner& runner) {
  constexpr std::int64_t kBlock = 1 << 16;
  run_each(runner, (count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t n = block * kBlock; n < end; ++n) sum[n] += x[n];
  });
}

/// One side of one content.
struct Undo {
  const job::RotateJob* rotation;  // its transpose; null: it was not rotated
  Which which;
  Positions at;
  void* gradient;  // (B, heads, tokens, padded_width)
  void* raw;
};
Status undo(const Undo& side, const Prepared& prepared, const Runner& runner) {
  const AttentionJob& job = prepared.job;
  if (side.gradient == nullptr || side.raw == nullptr || side.gradient == side.raw) return {};
  const AttentionShape& s = job.shape;
  const bool queries = side.which == Which::queries;
  const std::int64_t heads = queries ? s.heads : s.key_heads;
  const std::int64_t tokens = queries ? s.queries : s.keys;
  const TensorView view = {side.gradient,
                           job.arithmetic,
                           {s.batch, tokens, heads, s.width},
                           {heads * tokens * s.padded_width, s.padded_width, tokens * s.padded_width, 1}};
  if (job::is_empty(view)) return {};
  if (job.decay.present) {
    with_arithmetic(job.arithmetic, [&](auto type) { multiply_decay<decltype(type)>(view, prepared, side.which, runner); });
  }
  if (side.rotation != nullptr) {
    if (Status s = rotate(*side.rotation, view, side.at, runner); !s) return s;
  }
  with_arithmetic(job.arithmetic, [&](auto type) {
    using T = decltype(type);
    add_all(static_cast<const T*>(side.gradient), s.batch * heads * tokens * s.padded_width, static_cast<T*>(side.raw), runner);
  });
  return {};
}

}  // namespace

std::int64_t tile_span(const job::ContentJob& content) {
  constexpr std::int64_t any = std::int64_t{1} << 62;
  if (content.kind != job::ContentKind::xpos) return any;
  const double most = std::floor(kMostDecay * content.scale_base / std::log((1 + content.gamma) / content.gamma));
  return most < 0x1p61 ? static_cast<std::int64_t>(most) : any;
}

Status make_contents(const Call& call, Arena& arena, Prepared& out) {
  out.job.contents[0] = {out.job.q, out.job.k};
  if (Status s = check_map_positions(call, out); !s) return s;
  const job::ContentKind kind = call.asked->content.kind;
  if (kind == job::ContentKind::rotary) {
    if (Status s = make_rotary(call, arena, out); !s) return s;
  } else if (kind == job::ContentKind::xpos) {
    if (Status s = make_xpos(call, arena, out); !s) return s;
  }
  make_shift(call.asked->content_shift, arena, out);
  return {};
}

Status undo_contents(const Call& call, const Prepared& prepared) {
  const AttentionJob& job = prepared.job;
  const job::ContentJob& content = call.asked->content;
  if (content.kind == job::ContentKind::plain) return {};
  for (int c = 0; c < job.content_count; ++c) {
    const ContentPositions& at = prepared.rotated_at[c];
    const Undo queries = {&content.queries_back, Which::queries, at.queries, job.backward.q[c], job.backward.q_raw};
    const Undo keys = {content.keys_rotated ? nullptr : &content.keys_back, Which::keys, at.keys, job.backward.k[c], job.backward.k_raw};
    if (Status s = undo(queries, prepared, *call.runner); !s) return s;
    if (Status s = undo(keys, prepared, *call.runner); !s) return s;
  }
  return {};
}

}  // namespace phasor::attend
