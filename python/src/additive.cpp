// SPDX-License-Identifier: Apache-2.0
// Sinusoidal encoding for Python: what phasor/_additive.py is made of.
#include "phasor/additive.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/additive_fields.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

void fill(const Sinusoidal& sinusoidal, nb::handle out, nb::handle positions, std::optional<double> amplitude) {
  const TokensArgument to(out, "out", Access::write);
  const PositionsArgument at(positions);
  run_unlocked(common_place({to.place(), at.place()}), elements_of(to.get()), [&](const Execution& execution) {
    return sinusoidal.fill(to.get(), at.get(), {.amplitude = amplitude, .execution = execution});
  });
}

void add(const Sinusoidal& sinusoidal, nb::handle x, nb::handle positions, nb::handle out, std::optional<double> amplitude) {
  const TokensInOut tokens(x, out, "x");
  const PositionsArgument at(positions);
  run_unlocked(common_place({tokens.place(), at.place()}), tokens.elements(), [&](const Execution& execution) {
    return sinusoidal.add(tokens.get(), at.get(), {.amplitude = amplitude, .execution = execution});
  });
}

double amplitude_gradient(const Sinusoidal& sinusoidal, nb::handle gradient, nb::handle positions) {
  const TokensArgument from(gradient, "gradient", Access::read);
  const PositionsArgument at(positions);
  return value_unlocked([&] { return sinusoidal.amplitude_gradient(from.get(), at.get()); });
}

using Pair = std::tuple<std::int64_t, std::int64_t, double, double>;
std::vector<Pair> pairs_of(const ShiftOperator& shift) {
  std::vector<Pair> pairs;
  for (const auto& pair : shift.pairs) pairs.emplace_back(pair.sin_channel, pair.cos_channel, pair.cos, pair.sin);
  return pairs;
}

}  // namespace

void bind_additive(nb::module_& m) {
  nb::class_<ShiftOperator>(m, "ShiftOperator", "The linear map that takes encodings some distance further on.")
      .def_ro("width", &ShiftOperator::width)
      .def_prop_ro("pairs", &pairs_of)
      .def("__getstate__", [](const ShiftOperator& shift) { return std::pair(shift.width, pairs_of(shift)); })
      .def("__setstate__",
           [](ShiftOperator& shift, const std::pair<std::int64_t, std::vector<Pair>>& state) {
             new (&shift) ShiftOperator{.width = state.first};
             for (const auto& [sin_channel, cos_channel, cos, sin] : state.second) {
               shift.pairs.push_back({.sin_channel = sin_channel, .cos_channel = cos_channel, .cos = cos, .sin = sin});
             }
           })
      .def("apply",
           [](const ShiftOperator& shift, nb::handle from) {
             const RealsArgument encoding(from, "encoding");
             std::vector<double> to(encoding.get().size());
             check(apply_shift(shift, encoding.get(), to));
             return numpy_array(std::move(to));
           })
      .def("matrix", [](const ShiftOperator& shift) { return numpy_array(value_of(matrix_of(shift)), {shift.width, shift.width}); });
  nb::class_<Sinusoidal>(m, "Sinusoidal", "A sinusoidal spec made ready.")
      .def(
          "__init__",
          [](Sinusoidal* self, nb::handle dataclass) {
            new (self) Sinusoidal(value_of(Sinusoidal::make(read<SinusoidalSpec>(dataclass, "SinusoidalSpec"))));
          },
          "spec"_a)
      .def("fill", &fill, "out"_a, "positions"_a.none(), "amplitude"_a = nb::none(), "Writes the encoding of every token.")
      .def("add", &add, "x"_a, "positions"_a.none(), "out"_a.none() = nb::none(), "amplitude"_a = nb::none(),
           "x + encoding; out of None: in place.")
      .def("amplitude_gradient", &amplitude_gradient, "gradient"_a, "positions"_a.none(), "The gradient by the amplitude.")
      .def(
          "shift", [](const Sinusoidal& self, const std::vector<double>& distances) { return value_of(self.shift(distances)); },
          "distances"_a)
      .def_prop_ro("width", [](const Sinusoidal& self) { return self.spec().width; })
      .def_prop_ro("axes", &Sinusoidal::axes)
      .def_prop_ro("frequencies", &Sinusoidal::frequencies);
}

}  // namespace phasor::python
