// SPDX-License-Identifier: Apache-2.0
// Biases on scores for Python: what phasor/_bias.py is made of.
#include "phasor/bias.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "arrays/arguments.hpp"
#include "bindings.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;
using Shape = BiasArgument::Shape;

void fill(const Bias& bias, nb::handle out, nb::handle queries, nb::handle keys, std::int64_t first_head) {
  const BiasArgument to(out, "out", Access::write, Shape::scores);
  const PositionsArgument q(queries, "q_positions");
  const PositionsArgument k(keys, "k_positions");
  run_unlocked(common_place({to.place(), q.place(), k.place()}), 0,
               [&](const Execution& execution) { return bias.fill(to.get(), q.get(), k.get(), first_head, execution); });
}

void diagonal(const Bias& bias, nb::handle out, std::int64_t first_distance, std::int64_t first_head, std::int64_t query_position) {
  const BiasArgument to(out, "out", Access::write, Shape::diagonal);
  const BiasPart part{.first_head = first_head, .query_position = query_position};
  run_unlocked(to.place(), 0, [&](const Execution& execution) { return bias.diagonal(to.get(), first_distance, part, execution); });
}

void gradient(const Bias& bias, nb::handle sum, nb::handle diagonal, std::int64_t first_distance,
              const std::pair<std::int64_t, std::int64_t>& of) {
  const NumbersOut to(sum, "sum");
  const BiasArgument from(diagonal, "diagonal", Access::read, Shape::diagonal);
  const BiasPart part{.first_head = of.first, .query_position = of.second};
  run_unlocked(common_place({to.place(), from.place()}), 0,
               [&](const Execution& execution) { return bias.gradient(to.get(), from.get(), first_distance, part, execution); });
}

void fill_xl(nb::handle out, nb::handle spec, nb::handle distances) {
  const TokensArgument to(out, "out", Access::write);
  const PositionsArgument at(distances, "distances");
  const auto sinusoids = read<XlSinusoids>(spec, "XlSinusoids");
  run_unlocked(to.place(), 0, [&](const Execution& /*execution*/) { return fill_xl_sinusoids(to.get(), sinusoids, at.get()); });
}

}  // namespace

void bind_bias(nb::module_& m) {
  nb::class_<Bias>(m, "Bias", "A scheme that biases scores, made ready.")
      .def(
          "__init__", [](Bias* self, nb::handle dataclass) { new (self) Bias(value_of(Bias::make(read<BiasSpec>(dataclass, "Bias")))); },
          "spec"_a)
      .def("fill", &fill, "out"_a, "q_positions"_a.none(), "k_positions"_a.none(), "first_head"_a = 0,
           "Fills (B, H, Tq, Tk) or (H, Tq, Tk).")
      .def("diagonal", &diagonal, "out"_a, "first_distance"_a, "first_head"_a = 0, "query_position"_a = 0,
           "Fills (H, N) with the biases at first_distance and on.")
      .def("gradient", &gradient, "sum"_a, "diagonal"_a, "first_distance"_a, "part"_a,
           "Adds the gradient of the parameters, float64, from that of a diagonal (H, N) to sum. The part: first head, query position.")
      .def("row", &Bias::row, "distance"_a)
      .def("rows_at",
           [](const Bias& bias, const std::vector<std::int64_t>& distances) {
             std::vector<std::int64_t> rows;
             rows.reserve(distances.size());
             for (const std::int64_t distance : distances) rows.push_back(bias.row(distance));
             return rows;
           })
      .def_prop_ro("rows", &Bias::rows)
      .def_prop_ro("heads", &Bias::heads)
      .def_prop_ro("slopes", &Bias::slopes)
      .def_prop_ro("parameter_count", &Bias::parameter_count);
  m.def("fill_xl_sinusoids", &fill_xl, "out"_a, "spec"_a, "distances"_a.none());
}

}  // namespace phasor::python
