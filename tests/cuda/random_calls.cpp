// SPDX-License-Identifier: Apache-2.0
// Random calls of every rotary function.
#include "cuda/random_calls.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/random_memory.hpp"
#include "cuda/random_specs.hpp"

namespace phasor::test {
namespace {

int64_t axes_of(const RotarySpec& spec) {
  if (const auto* directions = std::get_if<GivenDirections>(&spec.scaling)) return directions->axes;
  return std::max<int64_t>(1, static_cast<int64_t>(spec.axes.sections.size()));
}

// ---- Calls ----

/// What one call is made of; kept alive by the function that runs it.
struct Made {
  std::optional<Rotary> rotary = std::nullopt;
  std::optional<Rotary> before = std::nullopt;  // of a rerotation
  std::vector<Rotary> rotaries = {};            // of one call
  std::optional<std::size_t> spec_of = std::nullopt;
  bool narrow = false;                                   // spec_of is int32
  int64_t entries = 0;                                   // of spec_of
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
  return directions != nullptr && directions->heads > 1 ? directions->heads : draw.of<int64_t>({0, 1, 1, 2, 2, 3, 3, 8});
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

/// Specs of one call: some, or more than a launch on a GPU takes.
void add_specs(Draw& draw, Builder& builder, Made& made, const Extents& shape) {
  made.rotaries = {*made.rotary};
  const std::size_t specs = draw.one_in(12) ? 150 : static_cast<std::size_t>(draw.between(1, 4));
  for (int tries = 0; tries < 400 && made.rotaries.size() < specs; ++tries) {
    const Result<Rotary> next = Rotary::make(beside(draw, made.rotary->spec()));
    if (next) made.rotaries.push_back(*next);
  }
  made.entries = draw.one_in(2) ? shape[0] : shape[0] * shape[1];
  std::vector<int64_t> list;
  for (int64_t i = 0; i < made.entries; ++i) {
    list.push_back(i > 0 && draw.one_in(2) ? list.back() : draw.below(static_cast<int64_t>(made.rotaries.size())));
  }
  made.narrow = draw.one_in(2);
  made.spec_of = made.narrow ? builder.list(std::vector<std::int32_t>(list.begin(), list.end())) : builder.list(list);
}

std::optional<RandomCall> rotations(Draw& draw, Builder& builder, Made made, const Extents& shape, DType dtype) {
  const RotarySpec& spec = made.rotary->spec();
  add_operand(draw, builder, dtype, {shape[0], shape[1], heads_of(spec, draw), spec.head_dim}, made);
  if (draw.one_in(2)) add_operand(draw, builder, dtype, {shape[0], shape[1], heads_of(spec, draw), spec.head_dim}, made);
  made.positions = any_positions(draw, builder, axes_of(spec), shape[0], shape[1]);
  add_specs(draw, builder, made, shape);
  return finished("rotaries", builder, [made](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    const PositionType type = made.narrow ? PositionType::i32 : PositionType::i64;
    const RotaryList list = {made.rotaries, {memory[*made.spec_of], type, made.entries, device}};
    const ApplyOptions options = {made.direction, execution};
    const Positions at = made.positions.at(memory, device);
    const InOut q = in_out(made.operands[0], memory, device);
    return made.operands.size() == 1 ? apply_rotaries(list, q, at, options)
                                     : apply_rotaries(list, q, in_out(made.operands[1], memory, device), at, options);
  });
}

std::optional<RandomCall> rows(Draw& draw, Builder& builder, Made made, const Extents& shape) {
  const RotarySpec& spec = made.rotary->spec();
  const auto* directions = std::get_if<GivenDirections>(&spec.scaling);
  const int64_t heads = directions == nullptr ? 1 : directions->heads;
  const DType dtype = draw.of({DType::f32, DType::f64});
  const Extents wanted = {shape[0], shape[1], heads,
                          spec.lanes == Lanes::per_channel_frequencies ? spec.rotary_width : spec.rotary_width / 2};
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

std::string hex(const std::byte* bytes, std::size_t size) {
  std::string text = "0x";
  for (std::size_t b = size; b-- > 0;) {
    text += "0123456789abcdef"[std::to_integer<int>(bytes[b] >> 4)];
    text += "0123456789abcdef"[std::to_integer<int>(bytes[b] & std::byte{15})];
  }
  return text;
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
  switch (draw.below(10)) {
    case 0:
      return rows(draw, builder, std::move(made), shape);
    case 1:
    case 2:
      return by_tables(draw, builder, std::move(made), shape, dtype);
    case 3:
    case 4:
      return moved_keys(draw, builder, std::move(made), shape, dtype);
    case 5:
    case 6:
      return rotations(draw, builder, std::move(made), shape, dtype);
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

std::string first_difference(const std::vector<std::byte>& got, const std::vector<std::byte>& wanted, DType dtype) {
  if (got == wanted) return {};  // quickly: many buffers are long
  const auto size = static_cast<std::size_t>(bytes_of(dtype));
  if (got.size() != wanted.size()) return std::to_string(got.size()) + " bytes instead of " + std::to_string(wanted.size());
  for (std::size_t i = 0; i + size <= got.size(); i += size) {
    const std::vector<std::byte> a(got.begin() + static_cast<std::ptrdiff_t>(i), got.begin() + static_cast<std::ptrdiff_t>(i + size));
    const std::vector<std::byte> b(wanted.begin() + static_cast<std::ptrdiff_t>(i), wanted.begin() + static_cast<std::ptrdiff_t>(i + size));
    if (same_elements(a, b, dtype)) continue;
    return "element " + std::to_string(i / size) + " of " + std::to_string(got.size() / size) + " is " + hex(a.data(), size) + ", wanted " +
           hex(b.data(), size);
  }
  return {};
}

std::string first_difference(const RandomCall& call, std::size_t buffer, const std::vector<std::byte>& got,
                             const std::vector<std::byte>& wanted) {
  const std::string difference = first_difference(got, wanted, call.elements[buffer]);
  if (difference.empty() && call.writes_integers && got != wanted) return "integers differ whose bits are those of a NaN";
  return difference;
}

}  // namespace phasor::test
