// SPDX-License-Identifier: Apache-2.0
// Values of biases that depend on |r| alone, and their gradients, for a call that needs thousands of them at once: float64 to some
// roundings, where plan's are the nearest, at a tenth of its time.
#include <algorithm>
#include <cmath>

#include "cpu/attention/host_terms/bias_parts.hpp"
#include "math/sincos.hpp"
#include "plan/attention.hpp"

namespace phasor::attend {
namespace {

/// Turned by an angle whose cosine and sine are known.
struct Turn {
  double cos;
  double sin;
  Turn after(const Turn& other) const { return {cos * other.cos - sin * other.sin, sin * other.cos + cos * other.sin}; }
};
Turn turn_by(const math::Step& step, std::int64_t lengths) {
  const auto exact = math::sincos_double_double(math::phase_of(step, lengths));
  return {exact.cos.high, exact.sin.high};
}

/// The sum of cosines at many lengths: blocks of lengths are turned from one exact angle, lengths of a block from its beginning, so that
/// roundings are those of at most 2 kBlock turns.
void add_cosines(const math::Step& step, std::int64_t first, std::span<double> to) {
  constexpr std::int64_t kBlock = 32;
  const Turn one = turn_by(step, 1);
  const Turn block = turn_by(step, kBlock);
  Turn within[kBlock] = {{1, 0}};
  for (std::int64_t b = 1; b < kBlock; ++b) within[b] = within[b - 1].after(one);
  Turn at = turn_by(step, first);
  const auto count = static_cast<std::int64_t>(to.size());
  for (std::int64_t begin = 0; begin < count; begin += kBlock, at = at.after(block)) {
    const std::int64_t end = std::min(kBlock, count - begin);
    for (std::int64_t b = 0; b < end; ++b) to[static_cast<std::size_t>(begin + b)] += at.cos * within[b].cos - at.sin * within[b].sin;
  }
}

/// What FIRE's perceptron reads.
struct FireInput {
  double x;
  double by_c;       // dx/dc
  double by_length;  // dx/dlength
};
struct FireAt {
  plan::FireCurve fire;
  double scale;   // 1 / (psi(length) + epsilon)
  double slowed;  // 1 / (c length + 1)

  explicit FireAt(const plan::FireCurve& s) : fire(s), scale(1 / plan::fire_scale(s, 0).divisor), slowed(1 / (s.c * s.length + 1)) {}
  FireInput at(double a) const {
    const double x = std::log1p(fire.c * a) * scale;
    return {x, scale * (a / (fire.c * a + 1) - x * fire.length * slowed), -scale * x * fire.c * slowed};
  }
};

struct FillLengths {
  const BiasNumbers& numbers;
  const LengthValues& values;

  std::int64_t count() const { return static_cast<std::int64_t>(values.out.size()) / values.heads; }
  double* of_head(std::int64_t head) const { return values.out.data() + head * count(); }
  std::int64_t spec_head(std::int64_t head) const { return values.first_head + head; }

  void kerple() const {
    const plan::BiasSource& s = numbers.source;
    for (std::int64_t head = 0; head < values.heads; ++head) {
      const double r1 = s.r1[spec_head(head)];
      const double r2 = s.r2[spec_head(head)];
      for (std::int64_t n = 0; n < count(); ++n) {
        const auto a = static_cast<double>(values.first + n);
        of_head(head)[n] = s.kerple == KerpleKind::logarithmic ? -r1 * plan::kerple_logarithm(a, r2) : 0 - r1 * plan::kerple_power(a, r2);
      }
    }
  }
  void sandwich() const {
    const plan::BiasSource& s = numbers.source;
    const std::span<double> sums = values.out.first(static_cast<std::size_t>(count()));
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const math::Step& step : std::span(s.steps, static_cast<std::size_t>(s.step_count))) add_cosines(step, values.first, sums);
    for (std::int64_t head = values.heads - 1; head >= 0; --head) {
      const double factor = static_cast<double>(s.heads) / (8.0 * static_cast<double>(spec_head(head) + 1));
      for (std::int64_t n = 0; n < count(); ++n) of_head(head)[n] = factor * sums[static_cast<std::size_t>(n)];
    }
  }
  void fire() const {
    const FireAt input(numbers.source.fire);
    const FireLines& lines = numbers.lines;
    const std::size_t segments = lines.knots.size() + 1;
    for (std::int64_t n = 0; n < count(); ++n) {
      const double x = input.at(static_cast<double>(values.first + n)).x;
      const auto segment = static_cast<std::size_t>(std::lower_bound(lines.knots.begin(), lines.knots.end(), x) - lines.knots.begin());
      for (std::int64_t head = 0; head < values.heads; ++head) {
        const std::size_t at = static_cast<std::size_t>(head) * segments + segment;
        of_head(head)[n] = lines.slopes[at] * x + lines.offsets[at];
      }
    }
  }
};

void add_kerple_gradient(const plan::BiasSource& s, const LengthGradient& gradient, std::span<double> to) {
  const double r1 = s.r1[gradient.head];
  const double r2 = s.r2[gradient.head];
  const auto head = static_cast<std::size_t>(gradient.head);
  const auto heads = static_cast<std::size_t>(s.heads);
  for (std::size_t n = 0; n < gradient.values.size(); ++n) {
    const double a = static_cast<double>(gradient.first) + static_cast<double>(n);
    if (a == 0) continue;  // the bias is 0 there, whatever the parameters
    const double g = gradient.values[n];
    const bool logarithmic = s.kerple == KerpleKind::logarithmic;
    const double value = logarithmic ? plan::kerple_logarithm(a, r2) : plan::kerple_power(a, r2);
    to[head] -= g * value;
    to[heads + head] -= g * r1 * (logarithmic ? plan::kerple_logarithm_by_r2(a, r2) : plan::kerple_power_by_r2(a, r2));
  }
}

void add_fire_gradient(const BiasNumbers& numbers, const LengthGradient& gradient, std::span<double> to) {
  const FireAt input(numbers.source.fire);
  const FireLines& lines = numbers.lines;
  const std::span<double> sums = gradient.memory.first(static_cast<std::size_t>(length_memory(numbers)));
  std::fill(sums.begin(), sums.end(), 0.0);
  double by_length = 0;
  const double* const slopes = lines.slopes.data() + static_cast<std::size_t>(gradient.row) * (lines.knots.size() + 1);
  for (std::size_t n = 0; n < gradient.values.size(); ++n) {
    const FireInput in = input.at(static_cast<double>(gradient.first) + static_cast<double>(n));
    const auto segment = static_cast<std::size_t>(std::lower_bound(lines.knots.begin(), lines.knots.end(), in.x) - lines.knots.begin());
    sums[segment * kFireSums] += gradient.values[n];
    sums[segment * kFireSums + 1] += gradient.values[n] * in.x;
    sums[segment * kFireSums + 2] += gradient.values[n] * in.by_c;
    by_length += gradient.values[n] * slopes[segment] * in.by_length;
  }
  add_line_gradient(numbers, gradient.head, sums, to);
  to[static_cast<std::size_t>(numbers.source.mlp.parameter_count) + 1] += by_length;
}

}  // namespace

bool is_even(const plan::BiasSource& bias) {
  using Scheme = plan::BiasSource::Scheme;
  return is_piecewise(bias) || bias.scheme == Scheme::kerple || bias.scheme == Scheme::sandwich;
}

void fill_lengths(const BiasNumbers& numbers, const LengthValues& values) {
  const FillLengths fill = {numbers, values};
  if (numbers.source.scheme == plan::BiasSource::Scheme::kerple) return fill.kerple();
  if (numbers.source.scheme == plan::BiasSource::Scheme::sandwich) return fill.sandwich();
  fill.fire();
}

std::int64_t length_memory(const BiasNumbers& numbers) { return (static_cast<std::int64_t>(numbers.lines.knots.size()) + 1) * kFireSums; }

void add_length_gradient(const BiasNumbers& numbers, const LengthGradient& gradient, std::span<double> to) {
  if (numbers.source.scheme == plan::BiasSource::Scheme::kerple) return add_kerple_gradient(numbers.source, gradient, to);
  if (is_piecewise(numbers.source)) add_fire_gradient(numbers, gradient, to);
}

}  // namespace phasor::attend
