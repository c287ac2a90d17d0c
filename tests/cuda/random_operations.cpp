// SPDX-License-Identifier: Apache-2.0
// Random calls of everything but rotation and attention.
#include "cuda/random_operations.hpp"

#include <cstring>
#include <utility>

#include "cuda/random_biases.hpp"
#include "cuda/random_lists.hpp"
#include "cuda/random_memory.hpp"

namespace phasor::test {
namespace {

using Call = std::function<Status(const Pointers&, const Execution&, Device)>;

RandomCall ended(const char* name, Builder& builder, Call run) {
  for (auto& buffer : builder.buffers) buffer.resize(buffer.size() + 16, std::byte{0xa5});
  return {name, std::move(builder.buffers), std::move(builder.elements), std::move(run)};
}

DType any_dtype(Draw& draw) { return draw.of({DType::f32, DType::f64, DType::f16, DType::bf16}); }
int64_t any_tokens(Draw& draw) { return draw.of<int64_t>({1, 2, 5, 9, 40}); }

// ---- Sinusoids ----

SinusoidLadder any_ladder(Draw& draw, int64_t pairs) {
  switch (draw.below(5)) {
    case 0:
      return LogSpacedLadder{.fastest = 1 + draw.real(), .slowest = 1e-3};
    case 1:
      return BandLadder{.spacing = draw.of({BandLadder::Spacing::even, BandLadder::Spacing::ratio})};
    case 2: {
      std::vector<double> frequencies = numbers(draw, pairs, -2, 2);
      if (draw.one_in(2)) frequencies.back() = 0;
      return GivenLadder{std::move(frequencies)};
    }
    default:
      return GeometricLadder{.base = draw.of({100.0, 10000.0}), .shift = draw.of({0.0, 1.0})};
  }
}

SinusoidalSpec any_sinusoidal(Draw& draw) {
  SinusoidalSpec spec;
  spec.odd = draw.of({OddChannel::zero, OddChannel::unpaired});
  const int64_t axes = draw.of<int64_t>({1, 1, 2, 3});
  int64_t pairs = 0;
  for (int64_t a = 0; a < axes; ++a) {
    const int64_t width = draw.one_in(20) ? 2100 : draw.one_in(2) ? 8 * draw.between(1, 9) : draw.between(4, 70);  // vectors, or not
    pairs += spec.odd == OddChannel::zero ? width / 2 : (width + 1) / 2;
    spec.width += width;
    if (axes > 1) spec.axis_widths.push_back(width);
  }
  spec.ladder = any_ladder(draw, pairs);
  spec.order = draw.of({SinusoidOrder::interleaved, SinusoidOrder::sin_cos, SinusoidOrder::cos_sin});
  spec.unit = draw.of({FrequencyUnit::radians, FrequencyUnit::radians, FrequencyUnit::turns});
  spec.position_scale = draw.of({1.0, 1.0, 1000.0});
  spec.amplitude = draw.of({1.0, 1.0, -1.0, 0.3, -2.5});
  if (draw.one_in(3)) spec.zero_position = draw.of<int64_t>({0, 1});
  return spec;
}

std::optional<RandomCall> sinusoids(Draw& draw, Builder& builder) {
  const Result<Sinusoidal> made = Sinusoidal::make(any_sinusoidal(draw));
  if (!made) return std::nullopt;
  const Sinusoidal sinusoidal = *made;
  const Extents shape = {draw.between(1, 3), any_tokens(draw), 1, sinusoidal.spec().width};
  const Placed in = builder.tensor(any_dtype(draw), shape);
  const Placed out = draw.one_in(2) ? in : builder.like(in);
  const PlacedPositions at = any_positions(draw, builder, sinusoidal.axes(), shape[0], shape[1]);
  if (draw.one_in(3)) {
    return ended("fill sinusoids", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
      return sinusoidal.fill(out.at(memory, device), at.at(memory, device), {.execution = execution});
    });
  }
  return ended("add sinusoids", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return sinusoidal.add({ConstTensorView(in.at(memory, device)), out.at(memory, device)}, at.at(memory, device),
                          {.execution = execution});
  });
}

// ---- Learned tables ----

/// Whole positions from 0 on, below `rows`, less an offset.
PlacedPositions rows_of_table(Draw& draw, Builder& builder, const Extents& shape, int64_t rows, int64_t offset) {  // (axes, B, T)
  if (draw.one_in(6)) return {.offset = draw.between(0, rows - shape[2]) - offset};
  PlacedPositions placed = {.type = draw.of({PositionType::i32, PositionType::i64}), .shape = shape};
  if (draw.one_in(2)) placed.shape[1] = 1;
  std::vector<int64_t> whole(static_cast<std::size_t>(placed.shape[0] * placed.shape[1] * placed.shape[2]));
  const int64_t some = draw.one_in(2) ? rows : draw.between(1, rows);  // few rows have many tokens
  for (int64_t& p : whole) p = draw.below(some) - offset;
  placed.buffer =
      placed.type == PositionType::i64 ? builder.list(whole) : builder.list(std::vector<std::int32_t>(whole.begin(), whole.end()));
  return placed;
}

std::optional<RandomCall> lookup(Draw& draw, Builder& builder) {
  const DType dtype = any_dtype(draw);
  const int64_t axes = draw.of<int64_t>({1, 1, 2, 3});
  const int64_t tokens = any_tokens(draw);
  const int64_t rows = tokens + draw.between(1, 60);
  const int64_t offset = draw.of<int64_t>({0, 2});
  std::vector<Placed> tables;
  Extents shape = {draw.between(1, 3), tokens, 1, 0};
  for (int64_t a = 0; a < axes; ++a) {
    const DType other = dtype == DType::f64 ? any_dtype(draw) : draw.of({DType::f32, DType::f16, DType::bf16});
    const int64_t width = draw.one_in(2) ? 8 * draw.between(1, 40) : draw.between(1, 150);
    tables.push_back(builder.tensor(draw.one_in(2) ? dtype : other, {1, rows, 1, width}));
    shape[3] += tables.back().shape[3];
  }
  const Placed in = builder.tensor(dtype, shape);
  const Placed out = draw.one_in(2) ? in : builder.like(in);
  const PlacedPositions at = rows_of_table(draw, builder, {axes, shape[0], tokens, 1}, rows, offset);
  return ended("lookup", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    std::vector<ConstTensorView> views;
    for (const Placed& table : tables) views.push_back(table.at(memory, device));
    const InOut x = {ConstTensorView(in.at(memory, device)), out.at(memory, device)};
    return lookup_add(x, views, at.at(memory, device), {.offset = offset, .execution = execution});
  });
}

std::optional<RandomCall> scatter(Draw& draw, Builder& builder) {
  const int64_t tokens = draw.one_in(5) ? draw.of<int64_t>({700, 2100}) : any_tokens(draw);
  const int64_t rows = tokens + draw.between(1, 60);
  const Extents shape = {draw.between(1, 3), tokens, 1, draw.of<int64_t>({1, 7, 128, 150, 1100})};
  const Placed table = builder.tensor(any_dtype(draw), {1, rows, 1, shape[3]});
  const Placed gradient = builder.tensor(any_dtype(draw), shape);
  ScatterOptions options = {.offset = draw.of<int64_t>({0, 2})};
  if (draw.one_in(3)) options.padding_row = draw.below(rows);
  const PlacedPositions at = rows_of_table(draw, builder, {1, shape[0], tokens, 1}, rows, options.offset);
  return ended("scatter", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    ScatterOptions with = options;
    with.execution = execution;
    return scatter_gradient(table.at(memory, device), ConstTensorView(gradient.at(memory, device)), at.at(memory, device), with);
  });
}

// ---- Gradients of learned rotations ----

std::optional<RandomCall> by_phases(Draw& draw, Builder& builder) {
  const Result<Rotary> rotary = Rotary::make(any_spec(draw));
  if (!rotary) return std::nullopt;
  const RotarySpec& spec = rotary->spec();
  const TableLayout layout = {spec.rotary_width, spec.rotary_offset, spec.pairing, spec.output_pairing,
                              spec.sense,        spec.numerics,      spec.segments};
  const int64_t heads = draw.of<int64_t>({1, 2, 5});
  const Extents shape = {draw.between(1, 3), any_tokens(draw), heads, spec.head_dim};
  const DType dtype = any_dtype(draw);
  const Placed rotated = builder.tensor(dtype, shape);
  const Placed gradient = builder.tensor(dtype, shape);
  const Placed out =
      builder.tensor(draw.of({DType::f32, DType::f64}), {shape[0], shape[1], draw.one_in(2) ? 1 : heads, spec.rotary_width / 2});
  const Accumulate accumulate = draw.of({Accumulate::replace, Accumulate::add});
  return ended("phase gradient", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return phase_gradient(out.at(memory, device), ConstTensorView(rotated.at(memory, device)), ConstTensorView(gradient.at(memory, device)),
                          layout, {accumulate, execution});
  });
}

int64_t direction_axes(const RotarySpec& spec) {
  if (const auto* directions = std::get_if<GivenDirections>(&spec.scaling)) return directions->axes;
  return std::max<int64_t>(1, static_cast<int64_t>(spec.axes.sections.size()));
}

/// A phase gradient, of as many heads as the spec wants, and more than one partial sum of tokens now and then.
Placed phase_gradient_of(Draw& draw, Builder& builder, const RotarySpec& spec) {
  const auto* directions = std::get_if<GivenDirections>(&spec.scaling);
  const int64_t heads = directions != nullptr && directions->heads > 1 ? directions->heads : draw.of<int64_t>({1, 2, 5});
  const int64_t tokens = draw.one_in(3) ? draw.of<int64_t>({255, 300, 4500}) : any_tokens(draw);
  const int64_t pairs = spec.rotary_width / 2;
  return builder.tensor(draw.of({DType::f32, DType::f64}),
                        {tokens > 300 ? 2 : draw.between(1, 3), tokens, tokens > 300 ? 1 : heads, pairs});
}

std::optional<RandomCall> by_frequencies(Draw& draw, Builder& builder) {
  const Result<Rotary> made = Rotary::make(any_spec(draw));
  if (!made) return std::nullopt;
  const Rotary rotary = *made;
  const Placed gradient = phase_gradient_of(draw, builder, rotary.spec());
  const auto count = static_cast<int64_t>(rotary.frequencies().size());
  const Placed sum = builder.tensor(draw.of({DType::f32, DType::f64}), {1, 1, 1, count});
  const PlacedPositions at = any_positions(draw, builder, direction_axes(rotary.spec()), gradient.shape[0], gradient.shape[1]);
  return ended("frequency gradient", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return rotary.frequency_gradient(sum.at(memory, device), ConstTensorView(gradient.at(memory, device)), at.at(memory, device),
                                     execution);
  });
}

std::optional<RandomCall> by_positions(Draw& draw, Builder& builder) {
  const Result<Rotary> made = Rotary::make(any_spec(draw));
  if (!made) return std::nullopt;
  const Rotary rotary = *made;
  const Placed gradient = phase_gradient_of(draw, builder, rotary.spec());
  const int64_t axes = draw.one_in(3) ? 1 : direction_axes(rotary.spec());
  const Placed out = builder.tensor(DType::f64, {axes, draw.one_in(2) ? 1 : gradient.shape[0], gradient.shape[1], 1});
  return ended("position gradient", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    const TensorView view = out.at(memory, device);
    const PositionsView to = {.data = view.data,
                              .type = PositionType::f64,
                              .shape = {view.shape[0], view.shape[1], view.shape[2]},
                              .strides = {view.strides[0], view.strides[1], view.strides[2]},
                              .device = device};
    return rotary.position_gradient(to, ConstTensorView(gradient.at(memory, device)), execution);
  });
}

// ---- Biases ----

struct HeadsAsked {
  int64_t first;
  int64_t count;
};
HeadsAsked some_heads(Draw& draw, int64_t heads) {
  const int64_t first = draw.one_in(2) ? 0 : draw.below(heads);
  return {first, draw.between(1, heads - first)};
}

struct DiagonalAsked {
  Placed values;
  int64_t first_distance;
  BiasPart part;
};
DiagonalAsked any_diagonal(Draw& draw, Builder& builder, const Bias& bias) {
  const Window window = window_of(bias.spec());
  const int64_t rows = (2 * window.height - 1) * (2 * window.width - 1);
  const HeadsAsked heads = some_heads(draw, bias.heads());
  const bool narrow = bias.parameter_count() < 100;  // of many parameters each has a sum over all distances
  int64_t count = narrow && draw.one_in(3) ? 1100 : draw.between(1, 90);
  int64_t first = draw.one_in(6) ? static_cast<int64_t>(draw.bits()) >> draw.between(3, 60) : draw.between(-60, 20);
  if (window.height != 0) {
    count = draw.between(1, rows);
    first = draw.between(-(rows / 2), rows / 2 + 1 - count);
  }
  const Placed values = builder.tensor(any_dtype(draw), {1, heads.count, 1, count});
  return {values, first, {heads.first, draw.of<int64_t>({0, 5, 700})}};
}

std::optional<RandomCall> diagonal(Draw& draw, Builder& builder, const Bias& bias) {
  const DiagonalAsked asked = any_diagonal(draw, builder, bias);
  return ended("bias diagonal", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return bias.diagonal(asked.values.at(memory, device), asked.first_distance, asked.part, execution);
  });
}

std::optional<RandomCall> diagonal_gradient(Draw& draw, Builder& builder, const Bias& bias) {
  if (bias.parameter_count() == 0) return std::nullopt;
  const DiagonalAsked asked = any_diagonal(draw, builder, bias);
  const Placed sum = builder.tensor(draw.of({DType::f32, DType::f64}), {1, 1, 1, bias.parameter_count()});
  return ended("bias gradient", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return bias.gradient(sum.at(memory, device), ConstTensorView(asked.values.at(memory, device)), asked.first_distance, asked.part,
                         execution);
  });
}

/// Whole positions of (B or 1, tokens), places of a window where there is one.
PlacedPositions bias_positions(Draw& draw, Builder& builder, const Window& window, int64_t batch, int64_t tokens) {
  if (window.height == 0 && draw.one_in(4)) return {.offset = draw.between(-5, 1000)};
  PlacedPositions placed = {.type = draw.of({PositionType::i32, PositionType::i64}), .shape = {1, draw.one_in(2) ? 1 : batch, tokens, 1}};
  std::vector<int64_t> whole(static_cast<std::size_t>(placed.shape[1] * tokens));
  const int64_t far = draw.of<int64_t>({100, 100000, 1 << 30});
  int64_t last = draw.below(far);
  for (int64_t& p : whole) {
    p = last = draw.one_in(8) ? draw.below(far) : last + 1;
    if (window.height != 0) p = draw.below(window.height) * (2 * window.width - 1) + draw.below(window.width);
  }
  placed.buffer =
      placed.type == PositionType::i64 ? builder.list(whole) : builder.list(std::vector<std::int32_t>(whole.begin(), whole.end()));
  return placed;
}

std::optional<RandomCall> block(Draw& draw, Builder& builder, const Bias& bias) {
  const Window window = window_of(bias.spec());
  const HeadsAsked heads = some_heads(draw, bias.heads());
  const Placed out = builder.tensor(
      any_dtype(draw), {draw.between(1, 2), heads.count, draw.of<int64_t>({1, 3, 17, 40}), draw.of<int64_t>({1, 5, 33, 1100})});
  const PlacedPositions queries = bias_positions(draw, builder, window, out.shape[0], out.shape[2]);
  const PlacedPositions keys = bias_positions(draw, builder, window, out.shape[0], out.shape[3]);
  return ended("bias fill", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return bias.fill(out.at(memory, device), queries.at(memory, device), keys.at(memory, device), heads.first, execution);
  });
}

std::optional<RandomCall> of_bias(Draw& draw, Builder& builder) {
  const Result<Bias> bias = Bias::make(any_bias(draw));
  if (!bias) return std::nullopt;
  switch (draw.below(3)) {
    case 0:
      return diagonal(draw, builder, *bias);
    case 1:
      return diagonal_gradient(draw, builder, *bias);
    default:
      return block(draw, builder, *bias);
  }
}

// ---- Positions ----

std::optional<RandomCall> built_positions(Draw& draw, Builder& builder) {
  RandomCall call;
  if (draw.one_in(2)) {
    const std::vector<int64_t> ends = any_ends(draw);
    const PlacedOut out = any_out(draw, builder, 1, ends.back());
    const PlacedIntegers cu = integers(draw, builder, ends);
    const PlacedIntegers offsets = draw.one_in(2) ? PlacedIntegers{} : integers(draw, builder, any_list(draw, ends.size() - 1, -5, 100000));
    call = ended("positions", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
      return fill_from_cu_seqlens(out.at(memory, device), {cu.at(memory, device), offsets.at(memory, device)}, execution);
    });
  } else {
    const int64_t batch = draw.between(1, 5);
    const PlacedOut out = any_out(draw, builder, batch, any_tokens(draw));
    const PlacedIntegers offsets = integers(draw, builder, any_list(draw, static_cast<std::size_t>(batch), -5, 1 << 30));
    const bool one = draw.one_in(3);
    call = ended("positions", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
      return one ? fill_from_offset(out.at(memory, device), -7, execution)
                 : fill_from_offsets(out.at(memory, device), offsets.at(memory, device), execution);
    });
  }
  call.writes_integers = true;
  return call;
}

std::optional<RandomCall> built_slots(Draw& draw, Builder& builder) {
  const bool ragged = draw.one_in(2);
  const std::vector<int64_t> ends = any_ends(draw);
  const int64_t sequences = ragged ? static_cast<int64_t>(ends.size()) - 1 : draw.between(1, 4);
  const int64_t rows = ragged ? 1 : sequences;
  const int64_t tokens = ragged ? ends.back() : any_tokens(draw);
  const int64_t page_size = draw.of<int64_t>({1, 4, 16});
  const int64_t pages = draw.between(1, 8);
  const int64_t length = draw.between(1, pages * page_size);
  const PlacedOut out = any_out(draw, builder, rows, tokens);
  const PlacedIntegers blocks = integers(draw, builder, any_list(draw, static_cast<std::size_t>(sequences * pages), 0, 1000));
  const PlacedIntegers lengths =
      draw.one_in(2) ? PlacedIntegers{} : integers(draw, builder, std::vector<int64_t>(static_cast<std::size_t>(sequences), length));
  const PlacedIntegers cu = ragged ? integers(draw, builder, ends) : PlacedIntegers{};
  const std::size_t at = builder.list(any_list(draw, static_cast<std::size_t>(rows * tokens), -1, length - 1));
  RandomCall call = ended("slots", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    Positions from = positions(reinterpret_cast<const int64_t*>(memory[at]), rows, tokens);
    from.device = device;
    const PageTable table = {blocks.at(memory, device), lengths.at(memory, device), page_size};
    return fill_slots(out.at(memory, device), table, from, cu.at(memory, device), execution);
  });
  call.writes_integers = true;
  return call;
}

/// Positions that have a temperature: from 0 on, or a little before it where they are shifted, as near as texts and as far as positions go.
PlacedPositions tempered_positions(Draw& draw, Builder& builder, int64_t least, const Extents& shape) {  // (1, B, T)
  const auto any = [&] { return draw.one_in(4) ? far_position(draw) & (kFarthest - 1) : draw.between(least, 20000); };
  if (draw.one_in(5)) return {.offset = any()};
  PlacedPositions placed = {.type = draw.of({PositionType::i32, PositionType::i64, PositionType::f64}), .shape = shape};
  std::vector<int64_t> whole(static_cast<std::size_t>(shape[1] * shape[2]));
  for (int64_t& p : whole) p = any();
  if (placed.type == PositionType::i64) {
    placed.buffer = builder.list(whole);
  } else if (placed.type == PositionType::i32) {
    std::vector<std::int32_t> narrow;
    for (const int64_t p : whole) narrow.push_back(static_cast<std::int32_t>(p % 1000000007));
    placed.buffer = builder.list(narrow);
  } else {
    std::vector<double> fractions;
    for (const int64_t p : whole) fractions.push_back(static_cast<double>(p) + draw.of({0.0, 0.5, draw.real()}));
    placed.buffer = builder.list(fractions);
  }
  return placed;
}

std::optional<RandomCall> temperatures(Draw& draw, Builder& builder) {
  QueryTemperature temperature = {.length = draw.of<int64_t>({2, 7, 8192, int64_t{1} << 40})};
  if (draw.one_in(2)) {
    temperature.kind = QueryTemperature::Kind::floored_log;
    temperature.scale = 0.1 + draw.real();
    temperature.shift = draw.of<int64_t>({0, 1, 5});
  }
  const Placed out = builder.tensor(DType::f32, {draw.between(1, 3), any_tokens(draw), 1, 1});
  const Extents shape = {1, draw.one_in(2) ? 1 : out.shape[0], out.shape[1], 1};
  const PlacedPositions at = tempered_positions(draw, builder, -temperature.shift, shape);
  return ended("temperatures", builder, [=](const Pointers& memory, const Execution& execution, Device device) {
    return fill_temperature(out.at(memory, device), temperature, at.at(memory, device), execution);
  });
}

}  // namespace

std::optional<RandomCall> random_operation(uint64_t seed) {
  Draw draw(seed);
  Builder builder(draw);
  switch (draw.below(9)) {
    case 8:
      if (draw.one_in(3)) return temperatures(draw, builder);
      return draw.one_in(2) ? built_positions(draw, builder) : built_slots(draw, builder);
    case 0:
      return sinusoids(draw, builder);
    case 1:
      return lookup(draw, builder);
    case 2:
      return scatter(draw, builder);
    case 3:
      return by_phases(draw, builder);
    case 4:
      return by_frequencies(draw, builder);
    case 5:
      return by_positions(draw, builder);
    default:
      return of_bias(draw, builder);
  }
}

}  // namespace phasor::test
