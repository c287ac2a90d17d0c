// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/host_terms/sinks.hpp"

#include <limits>

#include "cpu/attention/host/backward.hpp"
#include "job/check.hpp"
#include "job/element.hpp"

namespace phasor::attend {
namespace {

using job::error;

bool are_given(const ConstTensorView& sinks) { return sinks.data != nullptr || sinks.shape != Extents{}; }

double sink_at(const ConstTensorView& v, std::int64_t head) {
  return job::load_element(v.data, v.dtype, v.shape[2] == 1 ? 0 : head * v.strides[2]);
}

}  // namespace

Status check_sinks(const char* where, const ConstTensorView& v, const job::AttentionShape& shape) {
  if (!are_given(v)) return {};
  if (v.shape[0] != 1 || v.shape[1] != 1 || (v.shape[2] != 1 && v.shape[2] != shape.heads) || v.shape[3] != 1) {
    return error(where, "sinks has shape ({}, {}, {}, {}), wanted (1, 1, {} or 1, 1)", v.shape[0], v.shape[1], v.shape[2], v.shape[3],
                 shape.heads);
  }
  return job::check_view(where, "sinks", v);
}

void make_sinks(const ConstTensorView& v, Arena& arena, Prepared& out) {
  if (v.data == nullptr) return;
  const std::int64_t heads = out.job.shape.heads;
  void* const sinks = arena.take_bytes(heads * bytes_of(out.job.arithmetic));
  out.job.sinks = sinks;
  if (sinks == nullptr) return;
  for (std::int64_t h = 0; h < heads; ++h) job::store_element(sinks, out.job.arithmetic, h, sink_at(v, h));
}

double lse_without_keys(const AttentionSpec& spec, std::int64_t head) {
  return spec.sinks.data == nullptr ? -std::numeric_limits<double>::infinity() : sink_at(spec.sinks, head);
}

Status check_sink_gradient(const Call& call) {
  const TensorView& sinks = call.gradients->sinks;
  if (!is_wanted(sinks)) return {};
  if (call.spec->sinks.data == nullptr) return error(call.where, "gradients.sinks is given, wanted sinks, too");
  const Extents& is = sinks.shape;
  const Extents& wanted = call.spec->sinks.shape;
  if (is != wanted) {
    return error(call.where, "gradients.sinks has shape ({}, {}, {}, {}), wanted ({}, {}, {}, {})", is[0], is[1], is[2], is[3], wanted[0],
                 wanted[1], wanted[2], wanted[3]);
  }
  if (Status s = job::check_view(call.where, "gradients.sinks", sinks); !s) return s;
  if (sinks.dtype == DType::f32 || sinks.dtype == DType::f64) return {};
  return error(call.where, "gradients.sinks is {}, wanted f32 or f64", name_of(sinks.dtype));
}

void add_sink_gradient(const job::AttentionJob& job, const TensorView& out) {
  const std::int64_t heads = out.shape[2];
  const std::int64_t tiles = job.shape.heads * static_cast<std::int64_t>(job.query_tiles.size());
  for (std::int64_t h = 0; h < heads; ++h) {
    double sum = 0;
    for (std::int64_t n = tiles / heads * h; n < tiles / heads * (h + 1); ++n) sum += job.backward.sinks[n];
    const std::int64_t at = h * out.strides[2];
    job::store_element(out.data, out.dtype, at, job::load_element(out.data, out.dtype, at) + sum);
  }
}

}  // namespace phasor::attend
