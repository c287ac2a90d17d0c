// SPDX-License-Identifier: Apache-2.0
// Rotary encoding in C: made, read, applied.
#include "phasor/c/rotary.h"

#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/rotaries.hpp"
#include "phasor/serialised.hpp"
#include "specs/rotary.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

constexpr int kDirections = 3;

void make(const RotarySpec& spec, phasor_rotary** rotary) { *rotary = new phasor_rotary{value_of(Rotary::make(spec))}; }

ApplyOptions options_of(const char* where, phasor_direction direction, const phasor_execution& execution) {
  return {.direction = choice_of<Direction>(where, "direction", direction, kDirections), .execution = execution_of(execution)};
}

/// q, and k where it is given, as `apply` wants them.
template <class Apply>
void with_operands(const char* where, const phasor_rotation& rotation, const Apply& apply) {
  const InOut q = in_out_of(where, "q", rotation.q, "q_out", rotation.q_out);
  if (rotation.k == nullptr) {
    if (rotation.k_out != nullptr) fail(std::string(where) + ": k_out is given and k is null, wanted both or none");
    return must(apply(q));
  }
  must(apply(q, in_out_of(where, "k", rotation.k, "k_out", rotation.k_out)));
}

}  // namespace

extern "C" {

phasor_status phasor_rotary_make(const phasor_rotary_spec* spec, phasor_rotary** rotary, phasor_error* error) {
  return call(error, [&] {
    need("rotary_make", "rotary", rotary);
    make(rotary_spec_of("rotary_make", spec), rotary);
  });
}

phasor_status phasor_rotary_from_json(const char* text, size_t length, phasor_rotary** rotary, phasor_error* error) {
  return call(error, [&] {
    need("rotary_from_json", "rotary", rotary);
    make(value_of(rotary_spec_from_json(text_of("rotary_from_json", text, length))), rotary);
  });
}

phasor_status phasor_rotary_from_cbor(const uint8_t* bytes, size_t count, phasor_rotary** rotary, phasor_error* error) {
  return call(error, [&] {
    need("rotary_from_cbor", "rotary", rotary);
    make(spec_of_cbor<RotarySpec>("rotary_from_cbor", bytes, count), rotary);
  });
}

void phasor_rotary_free(phasor_rotary* rotary) { delete rotary; }

phasor_status phasor_rotary_to_json(const phasor_rotary* rotary, phasor_text* text, phasor_error* error) {
  return call(error, [&] { give("rotary_to_json", value_of(spec_to_json(need("rotary_to_json", "rotary", rotary)->value.spec())), text); });
}

phasor_status phasor_rotary_to_cbor(const phasor_rotary* rotary, phasor_bytes* bytes, phasor_error* error) {
  return call(error, [&] { give_cbor("rotary_to_cbor", need("rotary_to_cbor", "rotary", rotary)->value.spec(), bytes); });
}

phasor_status phasor_rotary_get_spec(const phasor_rotary* rotary, phasor_rotary_spec* spec, phasor_scaling* scaling, phasor_error* error) {
  constexpr const char* kWhere = "rotary_get_spec";
  return call(error, [&] {
    const RotarySpec& value = need(kWhere, "rotary", rotary)->value.spec();
    phasor_rotary_spec filled = c_spec_of(value);
    filled.scaling = scaling;
    check_given(kWhere, "scaling", scaling);
    check_given(kWhere, "spec", spec);
    give(kWhere, "scaling", c_scaling_of(value.scaling), scaling);
    give(kWhere, "spec", filled, spec);
  });
}

const double* phasor_rotary_frequencies(const phasor_rotary* rotary, size_t* count) {
  if (count != nullptr) *count = rotary == nullptr ? 0 : rotary->value.frequencies().size();
  return rotary == nullptr ? nullptr : rotary->value.frequencies().data();
}

double phasor_rotary_amplitude(const phasor_rotary* rotary) { return rotary == nullptr ? 0 : rotary->value.amplitude(); }
double phasor_rotary_softmax_scale(const phasor_rotary* rotary) { return rotary == nullptr ? 0 : rotary->value.softmax_scale(); }
int64_t phasor_rotary_width(const phasor_rotary* rotary) { return rotary == nullptr ? 0 : rotary->value.rotary_width(); }

phasor_status phasor_rotary_apply(const phasor_rotary* rotary, const phasor_rotation* rotation, phasor_error* error) {
  constexpr const char* kWhere = "apply_rotary";  // as the messages of the library itself
  return call(error, [&] {
    const Rotary& by = need(kWhere, "rotary", rotary)->value;
    const phasor_rotation c = known(kWhere, "the rotation", need(kWhere, "the rotation", rotation));
    const Positions positions = positions_of(kWhere, "positions", c.positions);
    const ApplyOptions options = options_of(kWhere, c.direction, c.execution);
    with_operands(kWhere, c, [&](const auto&... operands) { return by.apply(operands..., positions, options); });
  });
}

phasor_status phasor_apply_rotaries(const phasor_rotary_list* list, const phasor_rotation* rotation, phasor_error* error) {
  constexpr const char* kWhere = "apply_rotaries";
  return call(error, [&] {
    const phasor_rotation c = known(kWhere, "the rotation", need(kWhere, "the rotation", rotation));
    const std::vector<Rotary> rotaries = rotaries_of(kWhere, need(kWhere, "the list", list)->rotaries, list->count);
    const RotaryList of{rotaries, integer_list_of(kWhere, "spec_of", list->spec_of)};
    const Positions positions = positions_of(kWhere, "positions", c.positions);
    const ApplyOptions options = options_of(kWhere, c.direction, c.execution);
    with_operands(kWhere, c, [&](const auto&... operands) { return apply_rotaries(of, operands..., positions, options); });
  });
}

phasor_status phasor_rotary_cos_sin(const phasor_rotary* rotary, const phasor_cos_sin_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "cos_sin";
  return call(error, [&] {
    const Rotary& by = need(kWhere, "rotary", rotary)->value;
    const phasor_cos_sin_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const Positions positions = positions_of(kWhere, "positions", c.positions);
    const TensorView cos = tensor_of(kWhere, "cos", need(kWhere, "cos", c.cos));
    const TensorView sin = tensor_of(kWhere, "sin", need(kWhere, "sin", c.sin));
    must(by.cos_sin(positions, cos, sin, options_of(kWhere, c.direction, c.execution)));
  });
}

phasor_status phasor_apply_rotary(const phasor_tensor* cos, const phasor_tensor* sin, const phasor_table_layout* layout,
                                  const phasor_rotation* rotation, phasor_error* error) {
  constexpr const char* kWhere = "apply_rotary";
  return call(error, [&] {
    const phasor_rotation c = known(kWhere, "the rotation", need(kWhere, "the rotation", rotation));
    const ConstTensorView cosines = tensor_of(kWhere, "cos", need(kWhere, "cos", cos));
    const ConstTensorView sines = tensor_of(kWhere, "sin", need(kWhere, "sin", sin));
    const TableLayout how = layout_of(kWhere, layout);
    const ApplyOptions options = options_of(kWhere, c.direction, c.execution);
    with_operands(kWhere, c, [&](const auto&... operands) { return apply_rotary(operands..., cosines, sines, how, options); });
  });
}

phasor_status phasor_rerotate(const phasor_rerotation* rerotation, phasor_error* error) {
  constexpr const char* kWhere = "rerotate";
  return call(error, [&] {
    const phasor_rerotation c = known(kWhere, "the call", need(kWhere, "the call", rerotation));
    const RotatedAt from = {need(kWhere, "from.rotary", c.from.rotary)->value, positions_of(kWhere, "from.positions", c.from.positions)};
    const RotatedAt to = {need(kWhere, "to.rotary", c.to.rotary)->value, positions_of(kWhere, "to.positions", c.to.positions)};
    const ApplyOptions options = options_of(kWhere, c.direction, c.execution);
    if (c.slots == nullptr) return must(rerotate(in_out_of(kWhere, "keys", c.keys, "out", c.out), from, to, options));
    if (c.out != nullptr) fail("rerotate: slots and out are given, wanted a paged cache in place");
    const IntegerList slots = integer_list_of(kWhere, "slots", c.slots);
    if (slots.type != PositionType::i64) fail("rerotate: slots are int32, wanted int64");
    const std::span list(static_cast<const std::int64_t*>(slots.data), static_cast<std::size_t>(slots.size));
    must(rerotate(tensor_of(kWhere, "keys", need(kWhere, "keys", c.keys)), Slots(list, slots.device), from, to, options));
  });
}

phasor_status phasor_phase_gradient(const phasor_phase_gradient_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "phase_gradient";
  return call(error, [&] {
    const phasor_phase_gradient_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const PhaseGradientOptions options{.accumulate = c.add != 0 ? Accumulate::add : Accumulate::replace,
                                       .execution = execution_of(c.execution)};
    const TensorView out = tensor_of(kWhere, "out", need(kWhere, "out", c.out));
    const TensorView rotated = tensor_of(kWhere, "rotated", need(kWhere, "rotated", c.rotated));
    const TensorView gradient = tensor_of(kWhere, "gradient", need(kWhere, "gradient", c.gradient));
    must(phase_gradient(out, rotated, gradient, layout_of(kWhere, c.layout), options));
  });
}

phasor_status phasor_rotary_frequency_gradient(const phasor_rotary* rotary, const phasor_frequency_gradient_call* call_of,
                                               phasor_error* error) {
  constexpr const char* kWhere = "frequency_gradient";
  return call(error, [&] {
    const Rotary& by = need(kWhere, "rotary", rotary)->value;
    const phasor_frequency_gradient_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const TensorView sum = tensor_of(kWhere, "sum", need(kWhere, "sum", c.sum));
    const TensorView phases = tensor_of(kWhere, "phase_gradient", need(kWhere, "phase_gradient", c.phase_gradient));
    must(by.frequency_gradient(sum, phases, positions_of(kWhere, "positions", c.positions), execution_of(c.execution)));
  });
}

phasor_status phasor_rotary_position_gradient(const phasor_rotary* rotary, const phasor_position_gradient_call* call_of,
                                              phasor_error* error) {
  constexpr const char* kWhere = "position_gradient";
  return call(error, [&] {
    const Rotary& by = need(kWhere, "rotary", rotary)->value;
    const phasor_position_gradient_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const PositionsView out = positions_view_of(kWhere, "out", c.out);
    const TensorView phases = tensor_of(kWhere, "phase_gradient", need(kWhere, "phase_gradient", c.phase_gradient));
    must(by.position_gradient(out, phases, execution_of(c.execution)));
  });
}

}  // extern "C"
