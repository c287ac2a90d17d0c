// SPDX-License-Identifier: Apache-2.0
// The tensors of attention, put in their places.
#include "jax/attention_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "jax/failure.hpp"

namespace phasor::python::jax {

namespace {

/// What a name is, and so how many axes of its own its operand has.
enum class Kind : std::uint8_t { tensor, tokens, positions, mask, list, rows_of_batch, seed };
constexpr std::array<std::pair<std::string_view, Kind>, 11> kKinds = {{
    {"features", Kind::tokens},
    {"lse_gradient", Kind::tokens},
    {"query_segments", Kind::positions},
    {"key_segments", Kind::positions},
    {"query_positions", Kind::positions},
    {"key_positions", Kind::positions},
    {"key_mask", Kind::mask},
    {"prefix", Kind::rows_of_batch},
    {"query_starts", Kind::list},
    {"key_starts", Kind::list},
    {"dropout_seed", Kind::seed},
}};

Kind kind_of(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, [](const auto& entry) { return entry.first; });
  return found == kKinds.end() ? Kind::tensor : found->second;
}

std::int64_t axes_of(Kind kind) {
  switch (kind) {
    case Kind::tensor:
    case Kind::tokens:
      return 4;
    case Kind::positions:
      return 3;
    case Kind::mask:
      return 2;
    case Kind::list:
    case Kind::rows_of_batch:
    case Kind::seed:
      return 1;
  }
  return 0;
}

/// "3.table" or "sinks".
Slot slot_of(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {std::nullopt, text};
  std::size_t term = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + dot, term);
  demand(error == std::errc() && end == text.data() + dot, "attention: a slot of its call is no number and name");
  return {term, text.substr(dot + 1)};
}

KeyMask mask_at(const Calls& calls, const Operand& operand, std::int64_t call) {
  return {reinterpret_cast<const std::uint8_t*>(calls.at(operand, call)), {operand.own(1), 1}, operand.device()};
}

void put_seed(const Calls& calls, const Operand& operand, std::int64_t call, AttentionTensors& tensors) {
  if (operand.device().kind != DeviceKind::cpu) {
    throw Failure(ErrorKind::unsupported, "attention: dropout_seed is on a GPU, from where a call cannot read it");
  }
  demand(operand.own(0) == 4 && operand.dtype() == xla::DataType::u32,
         "attention: dropout_seed is another array than four words of 32 bits");
  const auto* const words = reinterpret_cast<const std::uint32_t*>(calls.at(operand, call));
  tensors.dropout_seed = words[0] | (std::uint64_t{words[1]} << 32U);
  tensors.dropout_offset = words[2] | (std::uint64_t{words[3]} << 32U);
}

}  // namespace

std::vector<Slot> slots_of(std::string_view text) {
  std::vector<Slot> slots;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    slots.push_back(slot_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return slots;
}

AttentionTensorsOf::AttentionTensorsOf(const Call& call, const Attention& plan, std::int64_t first)
    : plan_(plan), slots_(slots_of(call.text("slots"))) {
  for (Slot& slot : slots_) {
    slot.operand = call.argument(first++, axes_of(kind_of(slot.name)));
    demand(!slot.term || *slot.term < plan.scheme().terms.size(), "attention: a slot of its call names a term that its scheme has not");
  }
}

void AttentionTensorsOf::fold(Calls& calls, std::vector<Operand> whole) const {
  if (plan_.scheme().dropout > 0) return;  // rows of a batch drop other weights, mapped calls the same
  std::vector<Operand> shareable, single;
  for (const Slot& slot : slots_) {
    const Kind kind = kind_of(slot.name);
    if (kind == Kind::list) return;  // of sequences, in one batch row
    auto& where = kind == Kind::mask || kind == Kind::rows_of_batch ? whole : kind == Kind::tensor ? single : shareable;
    where.push_back(slot.operand);
  }
  calls.fold({whole, shareable, single});
}

void AttentionTensorsOf::put(const Slot& slot, const Calls& calls, std::int64_t call, AttentionTensors& to) const {
  const Operand& x = slot.operand;
  if (slot.name == "content_shift") return static_cast<void>(to.content_shift = calls.tensor(x, call));
  if (slot.name == "sinks") return static_cast<void>(to.sinks = calls.tensor(x, call));
  if (slot.name == "query_positions") return static_cast<void>(to.query_positions = calls.positions(x, call));
  if (slot.name == "key_positions") return static_cast<void>(to.key_positions = calls.positions(x, call));
  if (slot.name == "prefix") return static_cast<void>(to.prefix = calls.integers(x, call));
  if (slot.name == "query_starts") return static_cast<void>(to.query_starts = calls.integers(x, call));
  if (slot.name == "key_starts") return static_cast<void>(to.key_starts = calls.integers(x, call));
  if (slot.name == "key_mask") return static_cast<void>(to.key_mask = mask_at(calls, x, call));
  if (slot.name == "dropout_seed") return put_seed(calls, x, call, to);
  demand(slot.name == "lse_gradient", "attention: a slot of its call has a name that attention does not know");
}

void AttentionTensorsOf::put(const Slot& slot, const Calls& calls, std::int64_t call, TermTensors& to) const {
  const Operand& x = slot.operand;
  if (slot.name == "table") return static_cast<void>(to.table = calls.tensor(x, call));
  if (slot.name == "second") return static_cast<void>(to.second = calls.tensor(x, call));
  if (slot.name == "features") return static_cast<void>(to.features = calls.tensor(x, call));
  if (slot.name == "shift") return static_cast<void>(to.shift = calls.tensor(x, call));
  if (slot.name == "parameters") return static_cast<void>(to.parameters = calls.tensor(x, call));
  if (slot.name == "query_segments") return static_cast<void>(to.query_segments = calls.positions(x, call));
  if (slot.name == "key_segments") return static_cast<void>(to.key_segments = calls.positions(x, call));
  throw Failure(ErrorKind::invalid, "attention: a slot of its call has a name that terms do not know");
}

AttentionSpec AttentionTensorsOf::spec(const Calls& calls, std::int64_t call) const {
  std::vector<TermTensors> terms(plan_.scheme().terms.size());
  AttentionTensors tensors = {.terms = terms};
  for (const Slot& slot : slots_) {
    if (slot.term) {
      put(slot, calls, call, terms[*slot.term]);
    } else {
      put(slot, calls, call, tensors);
    }
  }
  return demand(plan_.spec(tensors));
}

const Operand* AttentionTensorsOf::find(std::string_view name) const {
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) { return !slot.term && slot.name == name; });
  return found == slots_.end() ? nullptr : &found->operand;
}

}  // namespace phasor::python::jax
