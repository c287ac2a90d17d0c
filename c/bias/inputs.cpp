// SPDX-License-Identifier: Apache-2.0
// What schemes of biases are given, in C: positions of windows, rows of sinusoids by distance.
#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "phasor/bias.hpp"
#include "phasor/c/bias.h"
#include "specs/bias.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

XlSinusoids sinusoids_of(const char* where, const phasor_xl_sinusoids* spec) {
  phasor_xl_sinusoids c = known(where, "the spec", need(where, "the spec", spec));
  XlSinusoids value;
  const Read way(where);
  way("width", c.width, value.width);
  way("base", c.base, value.base);
  way.choice("order", c.order, value.order, 2);
  way("clamp", c.clamp, value.clamp);
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_fill_window(const phasor_tensor* out, const phasor_window* window, phasor_error* error) {
  constexpr const char* kWhere = "fill_window";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_window(to, window_of(*need(kWhere, "window", window))));
  });
}

phasor_status phasor_fill_xl_sinusoids(const phasor_tensor* out, const phasor_xl_sinusoids* spec, phasor_positions distances,
                                       phasor_error* error) {
  constexpr const char* kWhere = "fill_xl_sinusoids";
  return call(error, [&] {
    const TensorView to = tensor_of(kWhere, "out", need(kWhere, "out", out));
    const auto of = sinusoids_of(kWhere, spec);
    must(fill_xl_sinusoids(to, of, positions_of(kWhere, "distances", distances)));
  });
}

}  // extern "C"
