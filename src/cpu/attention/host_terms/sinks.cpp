// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/host_terms/sinks.hpp"

#include <limits>

#include "job/element.hpp"

namespace phasor::attend {
namespace {

double sink_at(const ConstTensorView& v, std::int64_t head) {
  return job::load_element(v.data, v.dtype, v.shape[2] == 1 ? 0 : head * v.strides[2]);
}

}  // namespace

void make_sinks(const ConstTensorView& v, Arena& arena, Prepared& out) {
  if (v.data == nullptr) return;
  const std::int64_t heads = out.job.shape.heads;
  void* const sinks = arena.take_bytes(heads * bytes_of(out.job.arithmetic));
  out.job.sinks = sinks;
  if (sinks == nullptr) return;
  for (std::int64_t h = 0; h < heads; ++h) job::store_element(sinks, out.job.arithmetic, h, sink_at(v, h));
}

double lse_without_keys(const ConstTensorView& sinks, std::int64_t head) {
  return sinks.data == nullptr ? -std::numeric_limits<double>::infinity() : sink_at(sinks, head);
}

void add_sink_gradient(const AttentionJob& job, const TensorView& out) {
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
