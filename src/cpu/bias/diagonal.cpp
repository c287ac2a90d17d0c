// SPDX-License-Identifier: Apache-2.0
// A bias as a diagonal, computed in float64 and rounded once into the tensor; and the gradient by it.
#include <algorithm>
#include <numeric>
#include <vector>

#include "cpu/run.hpp"
#include "job/element.hpp"
#include "plan/bias/bias.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::cpu {
namespace {

std::vector<std::int64_t> distances_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

void write_diagonal(const job::DiagonalJob& job) {
  const TensorView& out = job.out;
  const BiasPart& part = job.part;
  const auto distances = distances_from(job.first_distance, out.shape[3]);
  std::vector<double> values(static_cast<std::size_t>(out.shape[1]) * distances.size());
  plan::fill_values(job.bias, {part.first_head, out.shape[1], part.query_position}, distances, values);
  job::with_element(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t head = 0; head < out.shape[1]; ++head) {
      T* to = static_cast<T*>(out.data) + head * out.strides[1];
      const double* from = values.data() + static_cast<std::size_t>(head) * distances.size();
      for (std::size_t i = 0; i < distances.size(); ++i) to[i] = job::element_of<T>(from[i]);
    }
  });
}

void add_gradient(const job::DiagonalGradientJob& job) {
  const ConstTensorView& diagonal = job.diagonal;
  const auto distances = distances_from(job.first_distance, diagonal.shape[3]);
  std::vector<double> gradient;
  gradient.reserve(static_cast<std::size_t>(diagonal.shape[1]) * distances.size());
  job::with_element(diagonal.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t head = 0; head < diagonal.shape[1]; ++head) {
      const T* from = static_cast<const T*>(diagonal.data) + head * diagonal.strides[1];
      for (std::size_t i = 0; i < distances.size(); ++i) gradient.push_back(job::number_of(from[i]));
    }
  });
  std::vector<double> sum(static_cast<std::size_t>(job.sum.shape[3]));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = job::load_element(job.sum.data, job.sum.dtype, static_cast<std::int64_t>(i));
  plan::add_gradient(job.bias, {job.part.first_head, diagonal.shape[1], job.part.query_position}, {distances, gradient, sum});
  for (std::size_t i = 0; i < sum.size(); ++i) job::store_element(job.sum.data, job.sum.dtype, static_cast<std::int64_t>(i), sum[i]);
}

}  // namespace

Status run_bias_diagonal(job::DiagonalJob& job, const Execution& /*execution*/) {
  return spec::without_exceptions([&] {
    write_diagonal(job);
    return Status();
  });
}

Status run_bias_gradient(job::DiagonalGradientJob& job, const Execution& /*execution*/) {
  return spec::without_exceptions([&] {
    add_gradient(job);
    return Status();
  });
}

}  // namespace phasor::cpu
