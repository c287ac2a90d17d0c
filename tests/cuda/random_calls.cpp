// SPDX-License-Identifier: Apache-2.0
// Random calls of every rotary function.
#include "cuda/random_calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "cuda/random_specs.hpp"

namespace phasor::test {
namespace {

// ---- Memory ----

/// A tensor in a buffer: its shape and strides, and where it begins.
struct Placed {
  std::size_t buffer;
  DType dtype;
  Extents shape;
  Extents strides;
  int64_t first;  // elements before it

  TensorView at(const std::vector<std::byte*>& memory, Device device) const {
    return {memory[buffer] + first * bytes_of(dtype), dtype, shape, strides, device};
  }
};

class Builder {
 public:
  /// Every second call has tensors as they usually are: contiguous.
  explicit Builder(Draw& draw) : draw_(draw), usual_(draw.one_in(2)) {}
  std::vector<std::vector<std::byte>> buffers;
  std::vector<DType> elements;

  /// B, T and H in any order in memory, with gaps, at any multiple of an element or of a vector.
  Placed tensor(DType dtype, const Extents& shape, bool cosines = false) {
    if (usual_) {
      fill(dtype, shape[0] * shape[1] * shape[2] * shape[3], cosines);
      return {buffers.size() - 1, dtype, shape, contiguous_strides(shape), 0};
    }
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; --i) std::swap(order[i], order[draw_.below(i + 1)]);
    const bool aligned = !draw_.one_in(3);
    const int64_t step = aligned ? 16 / bytes_of(dtype) : 1;
    const auto up = [step](int64_t n) { return (n + step - 1) / step * step; };
    Placed placed = {buffers.size(), dtype, shape, {0, 0, 0, 1}, aligned ? 0 : draw_.between(0, 3)};
    int64_t next = up(shape[3]);
    for (const int axis : order) {
      placed.strides[static_cast<std::size_t>(axis)] = next + step * draw_.of<int64_t>({0, 0, 1, 3});
      next = up(placed.strides[static_cast<std::size_t>(axis)] * shape[static_cast<std::size_t>(axis)]);
    }
    fill(dtype, next + placed.first, cosines);
    return placed;
  }

  /// Its copy to write to, of other strides.
  Placed like(const Placed& in) { return tensor(in.dtype, in.shape); }

  template <class T>
  std::size_t list(const std::vector<T>& values) {
    std::vector<std::byte>& buffer = buffers.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
    elements.push_back(sizeof(T) == 8 ? DType::f64 : DType::f32);
    return buffers.size() - 1;
  }

 private:
  void fill(DType dtype, int64_t count, bool cosines) {
    std::vector<std::byte>& buffer = buffers.emplace_back(static_cast<std::size_t>(count * bytes_of(dtype)));
    elements.push_back(dtype);
    for (int64_t i = 0; i < count; ++i) store(buffer.data(), dtype, i, draw_.one_in(16) ? draw_.of({0.0, -0.0, 1.0}) : value(cosines));
  }
  double value(bool cosines) { return (cosines ? 2.0 : 16.0) * (draw_.real() - 0.5); }
  static void store(std::byte* data, DType dtype, int64_t i, double x) {
    if (dtype == DType::f64) {
      reinterpret_cast<double*>(data)[i] = x;
    } else if (dtype == DType::f32) {
      reinterpret_cast<float*>(data)[i] = static_cast<float>(x);
    } else {  // what is drawn need not be rounded: sign, exponent and bits as they come
      const float f = static_cast<float>(x);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof f);
      const std::uint32_t exponent = (bits >> 23 & 0xff) + 15 - 127;
      const bool small = x == 0 || (bits >> 23 & 0xff) < 113;
      reinterpret_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(
          dtype == DType::bf16 ? bits >> 16 : (bits >> 16 & 0x8000) | (small ? 0 : exponent << 10 | (bits >> 13 & 0x3ff)));
    }
  }

  Draw& draw_;
  bool usual_;
};

// ---- Positions ----

struct PlacedPositions {
  std::optional<std::size_t> buffer = std::nullopt;  // none: consecutive ones from `offset` on
  PositionType type = PositionType::i64;
  Extents shape{};  // axes, batch, tokens
  int64_t offset = 0;

  Positions at(const std::vector<std::byte*>& memory, Device device) const {
    if (!buffer) return positions_from(offset);
    return {.data = memory[*buffer],
            .type = type,
            .shape = {shape[0], shape[1], shape[2]},
            .strides = {shape[1] * shape[2], shape[2], 1},
            .device = device};
  }
};

int64_t any_position(Draw& draw, int64_t& last) {
  switch (draw.below(6)) {
    case 0:
      return last = 0;
    case 1:
      return last = static_cast<int64_t>(draw.bits()) >> draw.between(2, 62);
    default:
      return last += last < (int64_t{1} << 61) ? 1 : 0;
  }
}

PlacedPositions any_positions(Draw& draw, Builder& builder, int64_t axes, int64_t batch, int64_t tokens) {
  if (draw.one_in(5)) return {.offset = static_cast<int64_t>(draw.bits()) >> draw.between(2, 62)};
  PlacedPositions placed = {.type = draw.of({PositionType::i32, PositionType::i64, PositionType::i64, PositionType::f64}),
                            .shape = {draw.one_in(4) ? 1 : axes, draw.one_in(2) ? 1 : batch, tokens, 1}};
  const int64_t count = placed.shape[0] * placed.shape[1] * tokens;
  int64_t last = draw.between(0, 100000);
  std::vector<int64_t> whole(static_cast<std::size_t>(count));
  for (int64_t& p : whole) p = any_position(draw, last);
  if (placed.type == PositionType::i64) {
    placed.buffer = builder.list(whole);
  } else if (placed.type == PositionType::i32) {
    std::vector<std::int32_t> narrow;
    for (const int64_t p : whole) narrow.push_back(static_cast<std::int32_t>(p % 1000000007));
    placed.buffer = builder.list(narrow);
  } else {
    std::vector<double> fractions;
    for (const int64_t p : whole) {
      fractions.push_back(draw.one_in(40) ? draw.of({std::numeric_limits<double>::quiet_NaN(), 1e300, -0x1p63})
                                          : static_cast<double>(p) + draw.of({0.0, 0.5, draw.real()}));
    }
    placed.buffer = builder.list(fractions);
  }
  return placed;
}

int64_t axes_of(const RotarySpec& spec) {
  if (const auto* directions = std::get_if<GivenDirections>(&spec.scaling)) return directions->axes;
  return std::max<int64_t>(1, static_cast<int64_t>(spec.axes.sections.size()));
}

// ---- Calls ----

/// What one call is made of; kept alive by the function that runs it.
struct Made {
  std::optional<Rotary> rotary = std::nullopt;
  std::optional<Rotary> before = std::nullopt;           // of a rerotation
  std::vector<std::pair<Placed, Placed>> operands = {};  // read, written
  PlacedPositions positions = {};
  PlacedPositions old_positions = {};
  std::vector<Placed> tables = {};
  TableLayout layout = {};
  std::optional<std::size_t> slots = std::nullopt;
  int64_t slot_count = 0;
  Direction direction = Direction::forward;
};

InOut in_out(const std::pair<Placed, Placed>& operand, const std::vector<std::byte*>& memory, Device device) {
  return {ConstTensorView(operand.first.at(memory, device)), operand.second.at(memory, device)};
}

int64_t heads_of(const RotarySpec& spec, Draw& draw) {
  const auto* directions = std::get_if<GivenDirections>(&spec.scaling);
  return directions != nullptr && directions->heads > 1 ? directions->heads : draw.of<int64_t>({1, 2, 3, 8});
}

void add_operand(Draw& draw, Builder& builder, DType dtype, const Extents& shape, Made& made) {
  const Placed in = builder.tensor(dtype, shape);
  made.operands.emplace_back(in, draw.one_in(2) ? in : builder.like(in));
}

RandomCall finished(std::string name, Builder& builder,
                    std::function<Status(const std::vector<std::byte*>&, const Execution&, Device)> run) {
  return {std::move(name), std::move(builder.buffers), std::move(builder.elements), std::move(run)};
}

std::optional<RandomCall> rotation(Draw& draw, Builder& builder, Made made, const Extents& shape, DType dtype) {
  const RotarySpec& spec = made.rotary->spec();
  add_operand(draw, builder, dtype, {shape[0], shape[1], heads_of(spec, draw), spec.head_dim}, made);
  if (draw.one_in(2)) add_operand(draw, builder, dtype, {shape[0], shape[1], heads_of(spec, draw), spec.head_dim}, made);
  made.positions = any_positions(draw, builder, axes_of(spec), shape[0], shape[1]);
  return finished("rotation", builder, [made](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    const ApplyOptions options = {made.direction, execution};
    const Positions at = made.positions.at(memory, device);
    const InOut q = in_out(made.operands[0], memory, device);
    return made.operands.size() == 1 ? made.rotary->apply(q, at, options)
                                     : made.rotary->apply(q, in_out(made.operands[1], memory, device), at, options);
  });
}

std::optional<RandomCall> rows(Draw& draw, Builder& builder, Made made, const Extents& shape) {
  const RotarySpec& spec = made.rotary->spec();
  const auto* directions = std::get_if<GivenDirections>(&spec.scaling);
  const int64_t heads = directions == nullptr ? 1 : directions->heads;
  const DType dtype = draw.of({DType::f32, DType::f64});
  const Extents wanted = {shape[0], shape[1], heads, spec.lanes == Lanes::tiled ? spec.rotary_width : spec.rotary_width / 2};
  made.tables = {builder.tensor(dtype, wanted), builder.tensor(dtype, wanted)};
  made.positions = any_positions(draw, builder, axes_of(spec), shape[0], shape[1]);
  return finished("cos_sin", builder, [made](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    return made.rotary->cos_sin(made.positions.at(memory, device), made.tables[0].at(memory, device), made.tables[1].at(memory, device),
                                {made.direction, execution});
  });
}

std::optional<RandomCall> by_tables(Draw& draw, Builder& builder, Made made, const Extents& shape, DType dtype) {
  const RotarySpec& spec = made.rotary->spec();
  made.layout = {spec.rotary_width, spec.rotary_offset, spec.pairing, spec.output_pairing, spec.sense, spec.numerics, spec.segments};
  const DType of_table = dtype == DType::f64 ? draw.of({DType::f32, DType::f64}) : draw.of({DType::f32, DType::f16, DType::bf16, dtype});
  const int64_t heads = draw.of<int64_t>({1, 2, 5});
  const Extents table = {draw.one_in(2) ? 1 : shape[0], shape[1], draw.one_in(3) ? heads : 1,
                         draw.one_in(2) ? spec.rotary_width : spec.rotary_width / 2};
  made.tables = {builder.tensor(of_table, table, true), builder.tensor(of_table, table, true)};
  add_operand(draw, builder, dtype, {shape[0], shape[1], heads, spec.head_dim}, made);
  if (draw.one_in(2)) add_operand(draw, builder, dtype, {shape[0], shape[1], heads, spec.head_dim}, made);
  return finished("tables", builder, [made](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    const ApplyOptions options = {made.direction, execution};
    const ConstTensorView cos = made.tables[0].at(memory, device);
    const ConstTensorView sin = made.tables[1].at(memory, device);
    const InOut q = in_out(made.operands[0], memory, device);
    return made.operands.size() == 1 ? apply_rotary(q, cos, sin, made.layout, options)
                                     : apply_rotary(q, in_out(made.operands[1], memory, device), cos, sin, made.layout, options);
  });
}

std::optional<RandomCall> moved_keys(Draw& draw, Builder& builder, Made made, const Extents& shape, DType dtype) {
  RotarySpec old = made.rotary->spec();
  if (draw.one_in(2)) old.base *= 2;
  if (draw.one_in(4)) old.sense = draw.of({Sense::counterclockwise, Sense::clockwise});
  const Result<Rotary> before = Rotary::make(old);
  if (!before) return std::nullopt;
  made.before = *before;
  const int64_t axes = axes_of(made.rotary->spec());
  const bool paged = draw.one_in(3);
  const int64_t tokens = shape[1];
  const int64_t heads = heads_of(made.rotary->spec(), draw);
  if (paged) {
    const int64_t page = draw.of<int64_t>({1, 4, 16});
    const int64_t pages = (tokens + page - 1) / page + 2;
    const Placed cache = builder.tensor(dtype, {pages, page, heads, old.head_dim});
    made.operands.emplace_back(cache, cache);
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < tokens; ++t) slots.push_back(draw.one_in(6) ? -1 : (t * 7919 + 3) % (pages * page));
    std::vector<int64_t> seen;
    for (int64_t& s : slots) {
      if (s >= 0 && std::find(seen.begin(), seen.end(), s) != seen.end()) s = -1;
      seen.push_back(s);
    }
    made.slots = builder.list(slots);
    made.slot_count = tokens;
  } else {
    add_operand(draw, builder, dtype, {shape[0], tokens, heads, old.head_dim}, made);
  }
  made.positions = any_positions(draw, builder, axes, paged ? 1 : shape[0], tokens);
  made.old_positions = any_positions(draw, builder, axes, paged ? 1 : shape[0], tokens);
  return finished("rerotate", builder, [made](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    const RotatedAt from = {*made.before, made.old_positions.at(memory, device)};
    const RotatedAt to = {*made.rotary, made.positions.at(memory, device)};
    const ApplyOptions options = {made.direction, execution};
    if (!made.slots) return rerotate(in_out(made.operands[0], memory, device), from, to, options);
    const Slots slots({reinterpret_cast<const int64_t*>(memory[*made.slots]), static_cast<std::size_t>(made.slot_count)}, device);
    return rerotate(made.operands[0].second.at(memory, device), slots, from, to, options);
  });
}

template <class T>
bool same_numbers(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  for (std::size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    if (std::memcmp(a.data() + i, b.data() + i, sizeof(T)) == 0) continue;
    T x;
    T y;
    std::memcpy(&x, a.data() + i, sizeof(T));
    std::memcpy(&y, b.data() + i, sizeof(T));
    if (x == x || y == y) return false;
  }
  return true;
}

bool is_nan(std::uint16_t bits, std::uint16_t infinity) { return (bits & 0x7fff) > infinity; }

bool same_halves(const std::vector<std::byte>& a, const std::vector<std::byte>& b, std::uint16_t infinity) {
  for (std::size_t i = 0; i + 2 <= a.size(); i += 2) {
    std::uint16_t x = 0;
    std::uint16_t y = 0;
    std::memcpy(&x, a.data() + i, 2);
    std::memcpy(&y, b.data() + i, 2);
    if (x != y && !(is_nan(x, infinity) && is_nan(y, infinity))) return false;
  }
  return true;
}

}  // namespace

std::optional<RandomCall> random_call(uint64_t seed) {
  Draw draw(seed);
  const Result<Rotary> rotary = Rotary::make(any_spec(draw));
  if (!rotary) return std::nullopt;
  Builder builder(draw);
  Made made = {.rotary = *rotary, .direction = draw.of({Direction::forward, Direction::forward, Direction::inverse, Direction::transpose})};
  const DType dtype = draw.of({DType::f32, DType::f64, DType::f16, DType::bf16});
  const Extents shape = {draw.between(1, 3), draw.of<int64_t>({1, 2, 5, 9, 40}), 1, 1};
  switch (draw.below(8)) {
    case 0:
      return rows(draw, builder, std::move(made), shape);
    case 1:
    case 2:
      return by_tables(draw, builder, std::move(made), shape, dtype);
    case 3:
    case 4:
      return moved_keys(draw, builder, std::move(made), shape, dtype);
    default:
      return rotation(draw, builder, std::move(made), shape, dtype);
  }
}

bool same_elements(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  if (a.size() != b.size()) return false;
  if (dtype == DType::f64) return same_numbers<double>(a, b);
  if (dtype == DType::f32) return same_numbers<float>(a, b);
  return same_halves(a, b, dtype == DType::f16 ? 0x7c00 : 0x7f80);
}

}  // namespace phasor::test
