// SPDX-License-Identifier: Apache-2.0
// Gradients of a bias: the slots of the kernels summed in order, in float64, then the chain rule of the plan.
#include <algorithm>

#include "cpu/attention/host_terms/bias_parts.hpp"
#include "job/element.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::attend {
namespace {

/// Slots of one head: head, head + heads, ...
template <class Body>
void each_slot(const attend::AttentionJob& job, std::int64_t head, const Body& body) {
  for (std::int64_t slot = head; slot < slots_of(job); slot += job.shape.heads) body(slot);
}

/// The sums of one head's diagonal, the ends with all that lies beyond.
template <class T>
void sum_diagonal(const attend::BiasJob& made, const attend::AttentionJob& job, std::int64_t head, std::span<double> to) {
  std::fill(to.begin(), to.end(), 0.0);
  each_slot(job, head, [&](std::int64_t slot) {
    const std::int64_t slots = job.backward.parts * job.shape.heads;  // of a group
    const attend::GroupBand& band = made.group_bands[slot / slots];
    const T* const from = static_cast<const T*>(made.diagonals) + band.first + slot % slots * band.stride;
    for (std::int64_t i = 0; i < band.count + 2 * attend::kBandMargin; ++i) {
      const std::int64_t place = std::clamp<std::int64_t>(band.skipped + i - attend::kBandMargin, 0, made.high - made.low);
      to[static_cast<std::size_t>(place)] += static_cast<double>(from[i]);
    }
    to.front() += made.ends[2 * slot];
    to.back() += made.ends[2 * slot + 1];
  });
}

/// Gradients of the parameters, before they are added to the caller's.
std::span<double> parameter_sums(const attend::BiasJob& made) {
  return {made.parameter_sums, static_cast<std::size_t>(made.plan->parameters)};
}

/// Schemes of |r| alone: both sides of a head's diagonal at once.
template <class T>
void add_even_diagonals(const attend::BiasJob& made, const TermContext& context) {
  const FireLines lines = lines_of(made, context.job->shape.heads);
  const LengthRange range = lengths_of(made);
  std::vector<double> diagonal(static_cast<std::size_t>(made.high - made.low + 1));
  std::vector<double> by_length(static_cast<std::size_t>(range.end - range.first));
  for (std::int64_t head = 0; head < context.job->shape.heads; ++head) {
    sum_diagonal<T>(made, *context.job, head, diagonal);
    std::fill(by_length.begin(), by_length.end(), 0.0);
    for (std::int64_t offset = made.low; offset <= made.high; ++offset) {
      by_length[static_cast<std::size_t>(std::abs(offset) - range.first)] += diagonal[static_cast<std::size_t>(offset - made.low)];
    }
    add_length_gradient(made, lines, {head, range.first, by_length}, parameter_sums(made));
  }
}

template <class T>
void add_diagonals(const attend::BiasJob& made, const TermContext& context) {
  if (is_even(made.plan->spec)) return add_even_diagonals<T>(made, context);
  const attend::AttentionJob& job = *context.job;
  const std::int64_t places = made.high - made.low + 1;
  std::vector<double> gradient(static_cast<std::size_t>(job.shape.heads * places));
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    sum_diagonal<T>(made, job, head,
                    std::span(gradient).subspan(static_cast<std::size_t>(head * places), static_cast<std::size_t>(places)));
  }
  plan::add_gradient(*made.plan, {made.first_head, job.shape.heads, 0}, {band_distances(made, 0, places), gradient, parameter_sums(made)});
}

/// The sums that are no diagonals, of one head.
void add_sums(const attend::BiasJob& made, std::int64_t head, const std::vector<double>& sums, std::span<double> parameters) {
  const auto spec_head = static_cast<std::size_t>(made.first_head + head);
  if (made.form == attend::BiasForm::line) {
    parameters[spec_head] += sums[0];
    return;
  }
  const std::size_t first = made.plan->rows > 0 ? spec_head * sums.size() : 0;
  for (std::size_t i = 0; i < sums.size(); ++i) parameters[first + i] += sums[i];
}

void add_parameters(const attend::BiasJob& made, const TermContext& context) {
  const attend::AttentionJob& job = *context.job;
  if (made.diagonals != nullptr) {
    with_arithmetic(job.arithmetic, [&](auto zero) { add_diagonals<decltype(zero)>(made, context); });
  }
  if (made.sums == nullptr) return;
  const auto* fire = made.fire.segments > 0 ? std::get_if<Fire>(&made.plan->spec) : nullptr;
  const FireLines lines = fire != nullptr ? lines_of(*fire, made.first_head, job.shape.heads) : FireLines();
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    std::vector<double> sums(static_cast<std::size_t>(made.sum_count), 0);
    each_slot(job, head, [&](std::int64_t slot) {
      for (std::int64_t i = 0; i < made.sum_count; ++i) sums[static_cast<std::size_t>(i)] += made.sums[slot * made.sum_count + i];
    });
    if (fire != nullptr) {
      add_line_gradient(*fire, lines, made.first_head + head, sums, parameter_sums(made));
    } else {
      add_sums(made, head, sums, parameter_sums(made));
    }
  }
}

void give_parameters(const attend::BiasJob& made, const TensorView& to) {
  for (std::int64_t i = 0; i < made.plan->parameters; ++i) add_to_element(to, {0, 0, 0}, i, made.parameter_sums[i]);
}

/// An axis of 1 is shared: its gradient is the sum.
void add_gates(const attend::BiasJob& made, const TermContext& context) {
  const TensorView& to = context.gradient->features;
  const attend::AttentionShape& s = context.job->shape;
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

Status finish_term(const BiasTerm& /*term*/, const attend::BiasJob& made, const TermContext& context) {
  return spec::without_exceptions([&] {
    if (made.parameter_sums != nullptr) {
      add_parameters(made, context);
      give_parameters(made, context.gradient->parameters);
    }
    if (made.gate_sums != nullptr) add_gates(made, context);
    return Status();
  });
}

}  // namespace phasor::attend
