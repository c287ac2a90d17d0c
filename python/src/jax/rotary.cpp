// SPDX-License-Identifier: Apache-2.0
// Rotary encoding for JAX.
#include "phasor/rotary.hpp"

#include <array>

#include "jax/failure.hpp"
#include "jax/handlers.hpp"
#include "jax/plans.hpp"
#include "phasor/serialised.hpp"

namespace phasor::python::jax {

namespace {

Rotary rotary_of(std::string_view text) {
  return plans<Rotary>().of(text, [](std::string_view spec) { return demand(Rotary::make(demand(rotary_spec_from_json(spec)))); });
}

Direction direction_of(std::int64_t number) {
  demand(number >= 0 && number <= 2, "rotary: direction is another number than 0, 1 or 2");
  return static_cast<Direction>(number);
}

}  // namespace

void rotate(Call& call) {
  const Rotary rotary = rotary_of(call.text("spec"));
  const bool both = call.results() == 2;
  const Operand positions = call.argument(0, 3);
  const Operand q = call.argument(1, 4);
  const Operand k = both ? call.argument(2, 4) : q;
  const Operand q_out = call.result(0, 4);
  const Operand k_out = both ? call.result(1, 4) : q_out;
  Calls calls(q_out);
  calls.fold({.whole = std::array{q, k, q_out, k_out}, .shareable = std::array{positions}});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const TensorView q_to = calls.tensor(q_out, i);
    const TensorView k_to = calls.tensor(k_out, i);
    const InOut q_rotated(ConstTensorView(calls.tensor(q, i)), q_to);
    const InOut k_rotated(ConstTensorView(calls.tensor(k, i)), k_to);
    const std::int64_t elements = q_to.shape[0] * q_to.shape[1] * (q_to.shape[2] + (both ? k_to.shape[2] : 0)) * q_to.shape[3];
    const ApplyOptions options = {direction_of(call.number("direction")), call.execution(elements)};
    const Positions at = calls.positions(positions, i);
    demand(both ? rotary.apply(q_rotated, k_rotated, at, options) : rotary.apply(q_rotated, at, options));
  }
}

void fill_rows(Call& call) {
  const Rotary rotary = rotary_of(call.text("spec"));
  const Operand positions = call.argument(0, 3);
  const Operand cos = call.result(0, 4);
  const Operand sin = call.result(1, 4);
  Calls calls(cos);
  calls.fold({.whole = std::array{cos, sin}, .shareable = std::array{positions}});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const TensorView to = calls.tensor(cos, i);
    const std::int64_t elements = to.shape[0] * to.shape[1] * to.shape[2] * to.shape[3];
    demand(rotary.cos_sin(calls.positions(positions, i), to, calls.tensor(sin, i), {.execution = call.execution(elements)}));
  }
}

}  // namespace phasor::python::jax
