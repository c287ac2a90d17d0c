// SPDX-License-Identifier: Apache-2.0
// FIRE beyond its length: what a query's own row is made of, and its perceptron as straight segments.
#include <algorithm>

#include "cpu/attention/host_terms/bias_parts.hpp"

namespace phasor::attend {
namespace {

/// The perceptron 1 -> hidden (ReLU) -> heads, by name.
struct OneLayer {
  const double* weight;      // (hidden)
  const double* bias;        // (hidden)
  const double* out_weight;  // (heads, hidden)
  const double* out_bias;    // (heads)
  std::size_t hidden;

  explicit OneLayer(const plan::MlpSource& mlp) : hidden(static_cast<std::size_t>(mlp.widths[1])) {
    weight = mlp.parameters;
    bias = weight + hidden;
    out_weight = bias + hidden;
    out_bias = out_weight + hidden * static_cast<std::size_t>(mlp.widths[2]);
  }
  /// Where a unit begins or ends, on x >= 0; below 0: nowhere.
  double knot(std::size_t unit) const { return weight[unit] == 0 ? -1 : -bias[unit] / weight[unit]; }
  /// Whether a unit counts on the segment that `knot` begins (below 0: the first one). At its own knot it is 0, which is not above 0.
  bool active(std::size_t unit, double knot_before) const {
    if (weight[unit] == 0) return bias[unit] > 0;
    const double at = knot(unit);
    return weight[unit] > 0 ? at < 0 || at <= knot_before : at > std::max(knot_before, 0.0);
  }
};

/// psi of each distance and dpsi/dc, laid out as a band.
template <class T>
void fill_psi(const BiasJob& bias, T* psi, T* growth) {
  const plan::FireCurve& fire = bias.source.fire;
  const std::int64_t count = bias.high - bias.low + 1;
  const auto finish = [&](T* band) {
    std::fill_n(band, kBandMargin, band[kBandMargin]);
    std::fill(band + kBandMargin + count, band + bias.stride, band[kBandMargin + count - 1]);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t distance = -(bias.low + i);
    psi[kBandMargin + i] = static_cast<T>(plan::fire_psi(fire, distance));
    const double a = plan::length_of(distance);
    if (growth != nullptr) growth[kBandMargin + i] = static_cast<T>(a / (fire.c * a + 1));
  }
  finish(psi);
  if (growth != nullptr) finish(growth);
}

template <class T>
void fill_inverse(const plan::FireCurve& fire, const AttentionJob& job, T* inverse) {
  for (std::int64_t b = 0; b < job.shape.batch; ++b) {
    for (std::int64_t i = 0; i < job.shape.queries; ++i) {
      const std::int64_t position = job.query_positions[b * job.query_position_stride + i];
      const bool beyond = static_cast<double>(position) > fire.length;  // others have the band
      inverse[b * job.shape.queries + i] = beyond ? static_cast<T>(1 / plan::fire_scale(fire, position).divisor) : T{0};
    }
  }
}

template <class T>
void copy_to(const std::vector<double>& from, void* to) {
  std::transform(from.begin(), from.end(), static_cast<T*>(to), [](double x) { return static_cast<T>(x); });
}

}  // namespace

bool is_piecewise(const plan::BiasSource& bias) {
  return bias.scheme == plan::BiasSource::Scheme::fire && bias.mlp.width_count == 3 && bias.mlp.activation == Activation::relu;
}

FireLines lines_of(const plan::BiasSource& bias, std::int64_t first_head, std::int64_t heads) {
  const OneLayer mlp(bias.mlp);
  FireLines lines;
  for (std::size_t unit = 0; unit < mlp.hidden; ++unit) {
    if (mlp.knot(unit) >= 0) lines.knots.push_back(mlp.knot(unit));
  }
  std::sort(lines.knots.begin(), lines.knots.end());
  for (std::int64_t head = first_head; head < first_head + heads; ++head) {
    const double* weight = mlp.out_weight + static_cast<std::size_t>(head) * mlp.hidden;
    for (std::size_t s = 0; s <= lines.knots.size(); ++s) {
      double slope = 0;
      double offset = mlp.out_bias[head];
      for (std::size_t unit = 0; unit < mlp.hidden; ++unit) {
        if (!mlp.active(unit, s == 0 ? -1 : lines.knots[s - 1])) continue;
        slope += weight[unit] * mlp.weight[unit];
        offset += weight[unit] * mlp.bias[unit];
      }
      lines.slopes.push_back(slope);
      lines.offsets.push_back(offset);
    }
  }
  return lines;
}

void add_line_gradient(const BiasNumbers& numbers, std::int64_t head, std::span<const double> sums, std::span<double> to) {
  const OneLayer mlp(numbers.source.mlp);
  const FireLines& lines = numbers.lines;
  const std::size_t out_weight = 2 * mlp.hidden + static_cast<std::size_t>(head) * mlp.hidden;
  const std::size_t out_bias = static_cast<std::size_t>(mlp.out_bias - mlp.weight) + static_cast<std::size_t>(head);
  for (std::size_t s = 0; s <= lines.knots.size(); ++s) {
    const double ds = sums[s * kFireSums];
    const double ds_x = sums[s * kFireSums + 1];
    double slope = 0;
    for (std::size_t unit = 0; unit < mlp.hidden; ++unit) {
      if (!mlp.active(unit, s == 0 ? -1 : lines.knots[s - 1])) continue;
      const double above = mlp.out_weight[static_cast<std::size_t>(head) * mlp.hidden + unit];
      to[unit] += above * ds_x;
      to[mlp.hidden + unit] += above * ds;
      to[out_weight + unit] += mlp.weight[unit] * ds_x + mlp.bias[unit] * ds;
      slope += above * mlp.weight[unit];
    }
    to[out_bias] += ds;
    to[static_cast<std::size_t>(numbers.source.mlp.parameter_count)] += slope * sums[s * kFireSums + 2];
  }
}

void make_fire_rows(const TermContext& context, Arena& arena, BiasJob& bias) {
  const plan::FireCurve& fire = bias.source.fire;
  const AttentionJob& job = *context.job;
  bias.fire.present = true;
  bias.fire.c = fire.c;
  bias.fire.length = fire.length;
  if (!is_piecewise(bias.source)) return;
  const bool backward = context.gradient != nullptr && is_wanted(context.gradient->parameters);
  const FireLines& lines = context.bias->lines;
  bias.fire.segments = static_cast<std::int64_t>(lines.knots.size()) + 1;
  void* const psi = take_arithmetic(arena, job, bias.stride);
  void* const growth = backward ? take_arithmetic(arena, job, bias.stride) : nullptr;
  void* const inverse = take_arithmetic(arena, job, job.shape.batch * job.shape.queries);
  void* const knots = take_arithmetic(arena, job, bias.fire.segments);
  void* const slopes = take_arithmetic(arena, job, job.shape.heads * bias.fire.segments);
  void* const offsets = take_arithmetic(arena, job, job.shape.heads * bias.fire.segments);
  bias.fire.psi = psi;
  bias.fire.growth = growth;
  bias.fire.inverse = inverse;
  bias.fire.knots = knots;
  bias.fire.slopes = slopes;
  bias.fire.offsets = offsets;
  if (offsets == nullptr) return;
  with_arithmetic(job.arithmetic, [&](auto zero) {
    using T = decltype(zero);
    fill_psi(bias, static_cast<T*>(psi), static_cast<T*>(growth));
    fill_inverse(fire, job, static_cast<T*>(inverse));
    copy_to<T>(lines.knots, knots);
    copy_to<T>(lines.slopes, slopes);
    copy_to<T>(lines.offsets, offsets);
  });
}

}  // namespace phasor::attend
