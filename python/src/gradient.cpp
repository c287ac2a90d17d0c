// SPDX-License-Identifier: Apache-2.0
// Gradients of learned rotations for Python: what nn's learned modules call in their backward pass.
#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "phasor/rotary.hpp"

namespace phasor::python {

namespace {

/// An array together with its view.
struct Tensor {
  Array array;
  TensorView view;
  Tensor(nb::handle object, const char* name, Access access) : array(array_of(object, name, access)), view(tensor_of(array, name)) {}
};

void by_phase(nb::handle out, nb::handle rotated, nb::handle gradient, const TableLayout& layout, bool accumulate) {
  const Tensor to(out, "out", Access::write);
  const Tensor y(rotated, "rotated", Access::read);
  const Tensor g(gradient, "gradient", Access::read);
  const Place place = common_place({to.array.place, y.array.place, g.array.place});
  run_unlocked(place, elements_of(y.view) + elements_of(g.view), [&](const Execution& execution) {
    const PhaseGradientOptions options{.accumulate = accumulate ? Accumulate::add : Accumulate::replace, .execution = execution};
    return phase_gradient(to.view, y.view, g.view, layout, options);
  });
}

void by_frequency(const Rotary& rotary, nb::handle sum, nb::handle phase_gradient, nb::handle positions) {
  const NumbersOut to(sum, "sum");
  const Tensor from(phase_gradient, "phase_gradient", Access::read);
  const PositionsArgument at(positions);
  run_unlocked(common_place({to.place(), from.array.place, at.place()}), elements_of(from.view),
               [&](const Execution& execution) { return rotary.frequency_gradient(to.get(), from.view, at.get(), execution); });
}

void by_position(const Rotary& rotary, nb::handle out, nb::handle phase_gradient) {
  const PositionsOut to(out);
  const Tensor from(phase_gradient, "phase_gradient", Access::read);
  run_unlocked(common_place({to.place(), from.array.place}), elements_of(from.view),
               [&](const Execution& execution) { return rotary.position_gradient(to.get(), from.view, execution); });
}

}  // namespace

void bind_gradient(nb::module_& m) {
  m.def("phase_gradient", &by_phase, nb::arg("out"), nb::arg("rotated"), nb::arg("gradient"), nb::arg("layout"), nb::arg("accumulate"),
        "Fills out, (B, T, H or 1, P), with the gradient by the angles, in radians; or adds it.");
  m.def("frequency_gradient", &by_frequency, nb::arg("rotary"), nb::arg("sum"), nb::arg("phase_gradient"), nb::arg("positions").none(),
        "Adds the gradient by rotary.frequencies, radians per position, to sum.");
  m.def("position_gradient", &by_position, nb::arg("rotary"), nb::arg("out"), nb::arg("phase_gradient"),
        "Fills out, (axes or 1, B or 1, T), with the gradient by the positions.");
}

}  // namespace phasor::python
