// SPDX-License-Identifier: Apache-2.0
// Checks of calls on a Bias.
#include "job/bias.hpp"

#include <variant>

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "job/positions/positions.hpp"
#include "spec/bias.hpp"

namespace phasor::job {
namespace {

constexpr std::int64_t farthest = std::int64_t{1} << 62;

/// Extents that cannot be, in the words of a bias, before check_view would say them in those of a token's tensor.
Status check_extents(const char* where, const ConstTensorView& v) {
  constexpr const char* names[] = {"batch", "heads", "queries", "keys"};
  for (std::size_t i = 0; i < 4; ++i) {
    if (v.shape[i] < 0) return error(where, "the bias has {} {}, wanted 0 or above", names[i], v.shape[i]);
  }
  return check_view(where, "the bias", v);
}

Status check_heads(const char* where, const plan::BiasPlan& plan, std::int64_t first, std::int64_t heads) {
  if (first >= 0 && first <= plan.heads && heads <= plan.heads - first) return {};
  return error(where, "{} heads from {} on are asked for, the spec has {}", heads, first, plan.heads);
}

Status check_written(const char* where, const ConstTensorView& v) {
  if (is_empty(v) || self_overlap(v) == Overlap::none) return {};
  return error(where, "the bias has strides {}, {}, {} by which elements overlap, wanted each element once", v.strides[0], v.strides[1],
               v.strides[2]);
}

Status check_distances(const DiagonalCall& call, const plan::BiasPlan& plan, std::int64_t count) {
  if (count == 0) return {};
  const std::int64_t first = call.first_distance;
  if (first < -farthest || first > farthest || count - 1 > farthest - first) {
    return error(call.where, "{} distances from {} are asked for, wanted within 2^62 either way", count, first);
  }
  const Window* window = window_of(plan.spec);
  if (window == nullptr) return {};
  const std::int64_t reach = spec::window_rows(*window) / 2;
  if (first >= -reach && first + count - 1 <= reach) return {};
  return error(call.where, "distances {} to {} are asked for, a window of {} x {} has {} to {}", first, first + count - 1, window->height,
               window->width, -reach, reach);
}

Status check_whole(const char* where, const Positions& p) {
  if (p.data == nullptr || p.type != PositionType::f64) return {};
  return error(where, "positions are f64, a bias wants i32 or i64");
}

}  // namespace

const Window* window_of(const BiasSpec& spec) {
  if (const auto* s = std::get_if<SwinTable>(&spec)) return &s->window;
  if (const auto* s = std::get_if<SwinV2>(&spec)) return &s->window;
  return nullptr;
}

Status check_diagonal(const DiagonalCall& call, const plan::BiasPlan& plan, const ConstTensorView& v) {
  if (Status s = check_extents(call.where, v); !s) return s;
  if (v.shape[0] != 1 || v.shape[2] != 1) {
    return error(call.where, "the diagonal has shape ({}, {}, {}, {}), wanted (1, heads, 1, distances)", v.shape[0], v.shape[1], v.shape[2],
                 v.shape[3]);
  }
  if (Status s = check_heads(call.where, plan, call.part.first_head, v.shape[1]); !s) return s;
  if (call.part.query_position < -farthest || call.part.query_position > farthest) {
    return error(call.where, "query_position is {}, wanted within 2^62 either way", call.part.query_position);
  }
  return check_distances(call, plan, v.shape[3]);
}

Status check_written_diagonal(const DiagonalCall& call, const plan::BiasPlan& plan, const TensorView& v) {
  if (Status s = check_diagonal(call, plan, v); !s) return s;
  return check_written(call.where, v);
}

Status check_parameter_sum(const DiagonalCall& call, const plan::BiasPlan& plan, const TensorView& sum, const ConstTensorView& diagonal) {
  if (Status s = check_sum(call.where, sum, {"scheme", "parameters", plan.parameters}, diagonal.device); !s) return s;
  if (overlap(sum, diagonal) != Overlap::none) return error(call.where, "sum overlaps the diagonal, wanted memory apart");
  return {};
}

Status check_block(const BlockCall& call, const plan::BiasPlan& plan) {
  constexpr const char* where = "Bias::fill";
  const Extents& shape = call.out.shape;
  if (Status s = check_extents(where, call.out); !s) return s;
  if (Status s = check_heads(where, plan, call.first_head, shape[1]); !s) return s;
  if (Status s = check_positions("Bias::fill: queries", call.queries, {shape[0], shape[2], 1, call.out.device}); !s) return s;
  if (Status s = check_positions("Bias::fill: keys", call.keys, {shape[0], shape[3], 1, call.out.device}); !s) return s;
  if (Status s = check_whole("Bias::fill: queries", call.queries); !s) return s;
  if (Status s = check_whole("Bias::fill: keys", call.keys); !s) return s;
  return check_written(where, call.out);
}

Status read_positions(const char* where, const plan::BiasPlan& plan, const Positions& p, std::int64_t batch,
                      std::vector<std::int64_t>& to) {
  const Window* window = window_of(plan.spec);
  return read_positions(where, window == nullptr ? Window{} : *window, p, batch, to);
}

Status read_positions(const char* where, const Window& window, const Positions& p, std::int64_t batch, std::vector<std::int64_t>& to) {
  for (std::size_t t = 0; t < to.size(); ++t) {
    const std::int64_t at = integer_at(p, batch, static_cast<std::int64_t>(t));
    if (at < -farthest / 2 || at > farthest / 2) return error(where, "position {} of token {}, wanted within 2^61 either way", at, t);
    if (window.height != 0) {
      const std::int64_t row = 2 * window.width - 1;
      if (at < 0 || at / row >= window.height || at % row >= window.width) {
        return error(where, "position {} of token {} is no place of a window of {} x {}, wanted those of fill_window", at, t, window.height,
                     window.width);
      }
    }
    to[t] = at;
  }
  return {};
}

Status check_xl_sinusoids(const char* where, const TensorView& out, const XlSinusoids& spec, const Positions& distances) {
  if (spec.order > XlOrder::interleaved) return error(where, "order is {}, wanted halves or interleaved", static_cast<int>(spec.order));
  if (spec.clamp < 0) return error(where, "clamp is {}, wanted 0 or above", spec.clamp);
  if (Status s = check_view(where, "out", out); !s) return s;
  if (out.shape[2] != 1 || out.shape[3] != spec.width) {
    return error(where, "out has {} heads and {} channels, wanted 1 and {}", out.shape[2], out.shape[3], spec.width);
  }
  if (!is_empty(out) && self_overlap(out) != Overlap::none) {
    return error(where, "out has strides by which elements overlap, wanted each element once");
  }
  if (Status s = check_positions(where, distances, {out.shape[0], out.shape[1], 1, out.device}); !s) return s;
  if (distances.data != nullptr && distances.type == PositionType::f64) return error(where, "distances are f64, wanted i32 or i64");
  return {};
}

}  // namespace phasor::job
