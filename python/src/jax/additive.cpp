// SPDX-License-Identifier: Apache-2.0
// Sinusoidal encoding for JAX.
#include "phasor/additive.hpp"

#include <array>

#include "jax/failure.hpp"
#include "jax/handlers.hpp"
#include "jax/plans.hpp"
#include "phasor/serialised.hpp"

namespace phasor::python::jax {

namespace {

Sinusoidal sinusoidal_of(std::string_view text) {
  return plans<Sinusoidal>().of(text,
                                [](std::string_view spec) { return demand(Sinusoidal::make(demand(sinusoidal_spec_from_json(spec)))); });
}

std::int64_t elements_of(const TensorView& x) { return x.shape[0] * x.shape[1] * x.shape[3]; }

}  // namespace

void fill_sinusoid(Call& call) {
  const Sinusoidal sinusoidal = sinusoidal_of(call.text("spec"));
  const Operand positions = call.argument(0, 3);
  const Operand out = call.result(0, 4);
  Calls calls(out);
  calls.fold({.whole = std::array{out}, .shareable = std::array{positions}});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const TensorView to = calls.tensor(out, i);
    demand(sinusoidal.fill(to, calls.positions(positions, i), {.execution = call.execution(elements_of(to))}));
  }
}

void add_sinusoid(Call& call) {
  const Sinusoidal sinusoidal = sinusoidal_of(call.text("spec"));
  const Operand x = call.argument(0, 4);
  const Operand positions = call.argument(1, 3);
  const Operand out = call.result(0, 4);
  Calls calls(out);
  calls.fold({.whole = std::array{x, out}, .shareable = std::array{positions}});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const TensorView to = calls.tensor(out, i);
    const InOut both(ConstTensorView(calls.tensor(x, i)), to);
    demand(sinusoidal.add(both, calls.positions(positions, i), {.execution = call.execution(elements_of(to))}));
  }
}

}  // namespace phasor::python::jax
