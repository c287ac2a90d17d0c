// SPDX-License-Identifier: Apache-2.0
// Gradients of a bias: the slots of the kernels summed in order, in float64, then the chain rule of the plan.
#include <algorithm>

#include "cpu/attention/host_terms/bias_parts.hpp"
#include "job/element.hpp"

namespace phasor::attend {
namespace {

/// Slots of one head: head, head + heads, ...
template <class Body>
void each_slot(const AttentionJob& job, std::int64_t head, const Body& body) {
  for (std::int64_t slot = head; slot < slots_of(job); slot += job.shape.heads) body(slot);
}

/// The sums of one head's diagonal, the ends with all that lies beyond.
template <class T>
void sum_diagonal(const BiasJob& made, const AttentionJob& job, std::int64_t head, std::span<double> to) {
  std::fill(to.begin(), to.end(), 0.0);
  each_slot(job, head, [&](std::int64_t slot) {
    const std::int64_t slots = job.backward.parts * job.shape.heads;  // of a group
    const GroupBand& band = made.group_bands[slot / slots];
    const T* const from = static_cast<const T*>(made.diagonals) + band.first + slot % slots * band.stride;
    for (std::int64_t i = 0; i < band.count + 2 * kBandMargin; ++i) {
      const std::int64_t place = std::clamp<std::int64_t>(band.skipped + i - kBandMargin, 0, made.high - made.low);
      to[static_cast<std::size_t>(place)] += static_cast<double>(from[i]);
    }
    to.front() += made.ends[2 * slot];
    to.back() += made.ends[2 * slot + 1];
  });
}

/// What one gradient is made in: numbers in the order in which they are taken.
class Finishing {
 public:
  explicit Finishing(const TermContext& context) : at_(context.bias->finishing) {}
  template <class T = double>
  std::span<T> take(std::int64_t count) {
    static_assert(sizeof(T) == sizeof(double));
    T* const begin = reinterpret_cast<T*>(at_);
    at_ += count;
    return {begin, static_cast<std::size_t>(count)};
  }

 private:
  double* at_;
};

/// Places of the band.
std::int64_t places_of(const BiasJob& made) { return made.high - made.low + 1; }

/// Gradients of the parameters, before they are added to the caller's.
struct ParameterSums {
  const BiasJob& made;
  const TermContext& context;
  std::span<double> to;
};

/// Schemes of |r| alone: both sides of a head's diagonal at once.
template <class T>
void add_even_diagonals(const ParameterSums& sums) {
  const BiasJob& made = sums.made;
  const LengthRange range = lengths_of(made);
  Finishing memory(sums.context);
  const std::span<double> diagonal = memory.take(places_of(made));
  const std::span<double> by_length = memory.take(range.end - range.first);
  const std::span<double> rest = memory.take(length_memory(*sums.context.bias));
  for (std::int64_t head = 0; head < sums.context.job->shape.heads; ++head) {
    sum_diagonal<T>(made, *sums.context.job, head, diagonal);
    std::fill(by_length.begin(), by_length.end(), 0.0);
    for (std::int64_t offset = made.low; offset <= made.high; ++offset) {
      by_length[static_cast<std::size_t>(std::abs(offset) - range.first)] += diagonal[static_cast<std::size_t>(offset - made.low)];
    }
    add_length_gradient(*sums.context.bias, {made.first_head + head, head, range.first, by_length, rest}, sums.to);
  }
}

template <class T>
void add_diagonals(const ParameterSums& sums) {
  const BiasJob& made = sums.made;
  if (is_even(made.source)) return add_even_diagonals<T>(sums);
  const AttentionJob& job = *sums.context.job;
  const std::int64_t places = places_of(made);
  Finishing memory(sums.context);
  const std::span<double> gradient = memory.take(job.shape.heads * places);
  const std::span<std::int64_t> distances = memory.take<std::int64_t>(places);
  const std::span<double> rest = memory.take(static_cast<std::int64_t>(plan::scratch_size(made.source, job.shape.heads)));
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    sum_diagonal<T>(made, job, head, gradient.subspan(static_cast<std::size_t>(head * places), static_cast<std::size_t>(places)));
  }
  fill_distances(made, 0, distances);
  plan::add_gradient(made.source, {made.first_head, job.shape.heads, 0}, {distances, gradient, sums.to}, rest);
}

/// The sums that are no diagonals, of one head.
void add_sums(const BiasJob& made, std::int64_t head, std::span<const double> sums, std::span<double> parameters) {
  const auto spec_head = static_cast<std::size_t>(made.first_head + head);
  if (made.form == BiasForm::line) {
    parameters[spec_head] += sums[0];
    return;
  }
  const std::size_t first = made.source.rows > 0 ? spec_head * sums.size() : 0;
  for (std::size_t i = 0; i < sums.size(); ++i) parameters[first + i] += sums[i];
}

void add_parameters(const ParameterSums& parameters) {
  const BiasJob& made = parameters.made;
  const AttentionJob& job = *parameters.context.job;
  if (made.diagonals != nullptr) {
    with_arithmetic(job.arithmetic, [&](auto zero) { add_diagonals<decltype(zero)>(parameters); });
  }
  if (made.sums == nullptr) return;
  const std::span<double> sums = Finishing(parameters.context).take(made.sum_count);
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    std::fill(sums.begin(), sums.end(), 0.0);
    each_slot(job, head, [&](std::int64_t slot) {
      for (std::int64_t i = 0; i < made.sum_count; ++i) sums[static_cast<std::size_t>(i)] += made.sums[slot * made.sum_count + i];
    });
    if (made.fire.segments > 0) {
      add_line_gradient(*parameters.context.bias, made.first_head + head, sums, parameters.to);
    } else {
      add_sums(made, head, sums, parameters.to);
    }
  }
}

/// An axis of 1 is shared: its gradient is the sum.
void add_gates(const BiasJob& made, const TermContext& context) {
  const TensorView& to = context.gradient->features;
  const AttentionShape& s = context.job->shape;
  if (s.batch == 0 || s.heads == 0) return;
  const std::int64_t batches = s.batch / to.shape[0];  // that share a gate
  const std::int64_t heads = s.heads / to.shape[2];
  const auto sum_of = [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    double sum = 0;
    for (std::int64_t n = 0; n < context.job->backward.parts * batches * heads; ++n) {
      const std::int64_t part = n / (batches * heads);
      const std::int64_t batch = b + n / heads % batches;
      sum += made.gate_sums[((part * s.batch + batch) * s.heads + h + n % heads) * s.queries + i];
    }
    return sum;
  };
  for (std::int64_t b = 0; b < to.shape[0]; ++b) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      for (std::int64_t h = 0; h < to.shape[2]; ++h) {
        add_to_element(to, {b, i, h}, 0, sum_of(b, i, h));
      }
    }
  }
}

}  // namespace

std::int64_t finishing_size(const BiasJob& made, const BiasNumbers& numbers, std::int64_t heads) {
  if (made.form != BiasForm::band) return made.sum_count;
  const LengthRange range = lengths_of(made);
  const std::int64_t even = places_of(made) + range.end - range.first + length_memory(numbers);
  const std::int64_t any = (heads + 1) * places_of(made) + static_cast<std::int64_t>(plan::scratch_size(made.source, heads));
  return std::max(made.sum_count, is_even(made.source) ? even : any);
}

void finish_term(const job::BiasTermJob& term, const BiasJob& made, const TermContext& context) {
  if (made.parameter_sums != nullptr) {
    const std::span<double> sums = {made.parameter_sums, static_cast<std::size_t>(term.parameter_count)};
    add_parameters({made, context, sums});
    for (std::int64_t i = 0; i < term.parameter_count; ++i) {
      add_to_element(context.gradient->parameters, {0, 0, 0}, i, made.parameter_sums[i]);
    }
  }
  if (made.gate_sums != nullptr) add_gates(made, context);
}

}  // namespace phasor::attend
