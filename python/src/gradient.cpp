// SPDX-License-Identifier: Apache-2.0
// Gradients of learned rotations for Python: what nn's learned modules call in their backward pass.
#include <nanobind/nanobind.h>

#include <span>
#include <string>

#include "array.hpp"
#include "bindings.hpp"
#include "phasor/rotary.hpp"
#include "status.hpp"
#include "threads.hpp"

namespace phasor::python {

namespace {

/// An array together with its view.
struct Tensor {
  Array array;
  TensorView view;
  Tensor(nb::handle object, const char* name, Access access) : array(array_of(object, name, access)), view(tensor_of(array, name)) {}
  std::int64_t elements() const { return view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3]; }
};

/// The entries of a contiguous float64 array, of whatever shape.
std::span<double> list_of(const Array& array, const char* name) {
  std::int64_t size = 1;
  bool contiguous = true;
  for (int i = array.ndim - 1; i >= 0; --i) {
    contiguous = contiguous && (array.shape[i] <= 1 || array.strides[i] == size);
    size *= array.shape[i];
  }
  if (array.is_bf16_bits || array.dtype != nb::dtype<double>()) raise(PyExc_TypeError, std::string(name) + ": wanted float64");
  if (!contiguous && size != 0) raise(PyExc_ValueError, std::string(name) + ": has gaps between its elements, wanted it contiguous");
  return {static_cast<double*>(array.data), static_cast<std::size_t>(size)};
}

void by_phase(nb::handle out, nb::handle rotated, nb::handle gradient, const TableLayout& layout, bool accumulate) {
  const Tensor to(out, "out", Access::write);
  const Tensor y(rotated, "rotated", Access::read);
  const Tensor g(gradient, "gradient", Access::read);
  Threads threads(y.elements() + g.elements());
  const PhaseGradientOptions options{.accumulate = accumulate ? Accumulate::add : Accumulate::replace, .runner = threads.runner()};
  Status status;
  {
    const nb::gil_scoped_release release;
    status = phase_gradient(to.view, y.view, g.view, layout, options);
  }
  check(status);
}

void by_frequency(const Rotary& rotary, nb::handle sum, nb::handle phase_gradient, nb::handle positions) {
  const Array sum_array = array_of(sum, "sum", Access::write);
  const std::span<double> to = list_of(sum_array, "sum");
  const Tensor from(phase_gradient, "phase_gradient", Access::read);
  const PositionsArgument at(positions);
  Threads threads(from.elements());
  Status status;
  {
    const nb::gil_scoped_release release;
    status = rotary.frequency_gradient(to, from.view, at.get(), threads.runner());
  }
  check(status);
}

void by_position(const Rotary& rotary, nb::handle out, nb::handle phase_gradient) {
  const Array out_array = array_of(out, "out", Access::write);
  const Positions shape = positions_of(out_array, "out");
  const PositionsView to{out_array.data, shape.type, shape.shape, shape.strides};
  const Tensor from(phase_gradient, "phase_gradient", Access::read);
  Threads threads(from.elements());
  Status status;
  {
    const nb::gil_scoped_release release;
    status = rotary.position_gradient(to, from.view, threads.runner());
  }
  check(status);
}

}  // namespace

void bind_gradient(nb::module_& m) {
  m.def("phase_gradient", &by_phase, nb::arg("out"), nb::arg("rotated"), nb::arg("gradient"), nb::arg("layout"), nb::arg("accumulate"),
        "Fills out, (B, T, H or 1, P), with the gradient by the angles, in radians; or adds it.");
  m.def("frequency_gradient", &by_frequency, nb::arg("rotary"), nb::arg("sum"), nb::arg("phase_gradient"), nb::arg("positions").none(),
        "Adds the gradient by rotary.frequencies, radians a position, to sum.");
  m.def("position_gradient", &by_position, nb::arg("rotary"), nb::arg("out"), nb::arg("phase_gradient"),
        "Fills out, (axes or 1, B or 1, T), with the gradient by the positions.");
}

}  // namespace phasor::python
