// SPDX-License-Identifier: Apache-2.0
// libFuzzer harness: bytes become every field of a RotarySpec; what make accepts is applied to a tiny tensor. Any crash is a bug.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "phasor/phasor.hpp"

namespace {

using namespace phasor;

/// Reads numbers from the input; zeros after its end.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t size = sizeof(T) < left_ ? sizeof(T) : left_;
    if (size != 0) std::memcpy(&value, data_, size);
    data_ += size;
    left_ -= size;
    return value;
  }

  /// Mostly small, sometimes anything.
  std::int64_t integer() {
    const auto kind = take<std::uint8_t>();
    if (kind < 200) return kind;
    if (kind < 240) return take<std::int16_t>();
    return take<std::int64_t>();
  }

  /// Mostly a sensible factor, sometimes any bits at all.
  double number() {
    const auto kind = take<std::uint8_t>();
    if (kind < 120) return static_cast<double>(kind) / 8;
    if (kind < 200) return static_cast<double>(take<float>());
    return take<double>();
  }

  std::optional<double> maybe() { return take<std::uint8_t>() % 2 == 0 ? std::nullopt : std::optional<double>(number()); }

  /// As many as a spec wants, one time in eight another number of them.
  std::vector<double> list(std::int64_t wanted) {
    const auto kind = take<std::uint8_t>();
    const std::int64_t size = kind % 8 == 0 ? kind : wanted < 0 ? 0 : wanted < 4096 ? wanted : 4096;
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < size; ++i) numbers.push_back(number());
    return numbers;
  }

  template <class Enum>
  Enum choice(int count) {
    const auto kind = take<std::uint8_t>();
    return static_cast<Enum>(kind < 250 ? kind % count : kind);
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

LongRopeScaling longrope(Bytes& in, std::int64_t pairs) {
  LongRopeScaling s;
  s.short_factors = in.list(pairs);
  s.long_factors = in.list(pairs);
  s.original_length = in.integer();
  s.factor = in.number();
  s.attention_factor = in.maybe();
  s.choice = in.choice<LongRopeChoice>(3);
  s.length = in.integer();
  return s;
}

YarnScaling yarn(Bytes& in) {
  YarnScaling s;
  s.factor = in.number();
  s.original_length = in.integer() % 65536 * 64;
  s.beta_fast = in.number();
  s.beta_slow = in.number();
  s.ramp = in.choice<YarnRamp>(2);
  s.attention_factor = in.maybe();
  s.mscale = in.maybe();
  s.mscale_all_dim = in.maybe();
  s.softmax = in.choice<YarnSoftmax>(2);
  return s;
}

GivenDirections directions(Bytes& in, std::int64_t pairs) {
  GivenDirections s;
  s.axes = in.integer() % 8;
  s.heads = in.integer();
  const bool small = s.heads > 0 && s.heads < 16 && pairs > 0 && pairs < 256;
  s.frequencies = in.list(small ? s.axes * s.heads * pairs : 7);
  return s;
}

Scaling scaling(Bytes& in, std::int64_t pairs) {
  switch (in.take<std::uint8_t>() % 12) {
    case 1:
      return LinearScaling{in.number()};
    case 2:
      return NtkScaling{in.number()};
    case 3:
      return NtkMixedScaling{in.number(), in.maybe()};
    case 4:
      return DynamicNtkScaling{in.number(), in.integer(), in.integer()};
    case 5:
      return yarn(in);
    case 6:
      return longrope(in, pairs);
    case 7:
      return Llama3Scaling{in.number(), in.number(), in.number(), in.integer()};
    case 8:
      return ProportionalScaling{in.number(), in.number()};
    case 9:
      return GivenFactors{in.list(pairs), in.number()};
    case 10:
      return GivenFrequencies{in.list(pairs), in.number()};
    case 11:
      return directions(in, pairs);
    default:
      return Unscaled{};
  }
}

Axes axes(Bytes& in, std::int64_t pairs) {
  Axes a;
  const auto count = in.take<std::uint8_t>() % 6;
  std::int64_t left = pairs;
  for (int i = 0; i < count; ++i) {
    const std::int64_t section = in.integer();
    a.sections.push_back(section == 0 ? left : section);  // 0: what is left, so that a sum is easily right
    left = static_cast<std::int64_t>(static_cast<std::uint64_t>(left) - static_cast<std::uint64_t>(section));
  }
  a.order = in.choice<AxisOrder>(4);
  a.ladder = in.choice<AxisLadder>(3);
  if (a.order == AxisOrder::given) {
    const std::int64_t size = pairs < 0 || pairs > 4096 ? 4 : pairs;
    for (std::int64_t i = 0; i < size; ++i) a.axis_of_pair.push_back(in.take<std::uint8_t>() % 5);
  }
  return a;
}

RotarySpec any_spec(Bytes& in) {
  RotarySpec spec;
  spec.head_dim = in.integer();
  spec.rotary_width = in.integer();
  spec.rotary_offset = in.integer() % 64;
  spec.base = in.take<std::uint8_t>() % 2 == 0 ? 10000 : in.number();
  spec.pairing = in.choice<Pairing>(2);
  if (in.take<std::uint8_t>() % 4 == 1) spec.output_pairing = in.choice<Pairing>(2);
  spec.sense = in.choice<Sense>(2);
  const std::int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
  spec.segments = in.take<std::uint8_t>() % 2 == 0 ? 1 : in.integer();
  spec.lanes = in.choice<Lanes>(2);
  spec.unit = in.choice<FrequencyUnit>(2);
  spec.numerics = in.choice<Numerics>(5);
  if (in.take<std::uint8_t>() % 2 == 1) spec.axes = axes(in, pairs);
  spec.scaling = scaling(in, pairs);
  return spec;
}

/// (axes, 1, T), of any type, any numbers.
template <class P>
std::vector<P> places(Bytes& in, std::int64_t count) {
  std::vector<P> list;
  const auto consecutive = in.take<std::uint8_t>() % 2;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<P>(i % 4 != 0 ? 1 : 0);
    list.push_back(consecutive == 1 && step != 0 && i > 0 && list.back() < P{1000} ? static_cast<P>(list.back() + step) : in.take<P>());
  }
  return list;
}

constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kAxes = 4;

template <class T, class P>
void rotate(Bytes& in, const Rotary& rotary, DType dtype) {
  const RotarySpec& spec = rotary.spec();
  const auto* given = std::get_if<GivenDirections>(&spec.scaling);
  const std::int64_t heads = given == nullptr ? 2 : given->heads;
  const std::vector<P> list = places<P>(in, kAxes * kTokens);
  Positions at = positions(list.data(), kAxes, 1, kTokens);
  at.shape[0] = in.take<std::uint8_t>() % 5;
  const ApplyOptions options{.direction = in.choice<Direction>(3)};
  std::vector<T> x(static_cast<std::size_t>(kTokens * heads * spec.head_dim));
  for (T& value : x) std::memcpy(&value, "\x3c\x40\x41\x3f\x12\x34\x56", sizeof(T) < 7 ? sizeof(T) : 7);
  const Extents shape{1, kTokens, heads, spec.head_dim};
  const TensorView view{x.data(), dtype, shape, contiguous_strides(shape)};
  const Status status = rotary.apply(view, at, options);
  if (!status.ok() && status.message().empty()) __builtin_trap();
  const std::int64_t width = spec.rotary_width / (spec.lanes == Lanes::per_channel_frequencies ? 1 : 2);
  const Extents rows{1, kTokens, given == nullptr ? 1 : given->heads, width};
  std::vector<float> cos(static_cast<std::size_t>(kTokens * rows[2] * width));
  std::vector<float> sin(cos.size());
  if (!rotary.cos_sin(at, phasor::view(cos.data(), rows), phasor::view(sin.data(), rows), options).ok()) return;
  // One call's positions and directions are the other's; only in place across pairings may a head be too wide to rotate.
  if (!status.ok() && status.kind() != ErrorKind::unsupported) __builtin_trap();
  for (std::size_t i = 0; i < cos.size(); ++i) {
    const double amplitude = options.direction == Direction::inverse ? 1 / rotary.amplitude() : rotary.amplitude();
    if (!(std::abs(static_cast<double>(cos[i])) <= amplitude * 1.0001) && cos[i] == cos[i]) __builtin_trap();
  }
}

template <class P>
void rotate_any(Bytes& in, const Rotary& rotary) {
  switch (in.take<std::uint8_t>() % 4) {
    case 0:
      return rotate<float, P>(in, rotary, DType::f32);
    case 1:
      return rotate<double, P>(in, rotary, DType::f64);
    case 2:
      return rotate<std::uint16_t, P>(in, rotary, DType::f16);
    default:
      return rotate<std::uint16_t, P>(in, rotary, DType::bf16);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const RotarySpec spec = any_spec(in);
  const std::int64_t width = spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width;
  if (width > 8192) return 0;  // right, but slow
  const Result<Rotary> rotary = Rotary::make(spec);
  if (!rotary.ok()) {
    if (rotary.status().message().empty()) __builtin_trap();
    return 0;
  }
  if (width <= 256) (void)rotation_matrix(*rotary, in.take<std::uint8_t>());
  (void)angle_error(*rotary, in.take<std::int64_t>());
  if (spec.head_dim > 8192) return 0;
  switch (in.take<std::uint8_t>() % 3) {
    case 0:
      rotate_any<std::int32_t>(in, *rotary);
      break;
    case 1:
      rotate_any<std::int64_t>(in, *rotary);
      break;
    default:
      rotate_any<double>(in, *rotary);
  }
  return 0;
}
