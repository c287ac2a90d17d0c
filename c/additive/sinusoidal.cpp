// SPDX-License-Identifier: Apache-2.0
// Sinusoidal encoding in C: made, read, written, added, shifted.
#include <algorithm>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/additive.hpp"
#include "phasor/c/additive.h"
#include "phasor/serialised.hpp"
#include "specs/additive.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

constexpr std::int64_t kWidest = std::int64_t{1} << 20;  // of any spec; its square is a size

void make(const SinusoidalSpec& spec, phasor_sinusoidal** sinusoidal) {
  *sinusoidal = new phasor_sinusoidal{value_of(Sinusoidal::make(spec))};
}

AddOptions add_options_of(const char* where, phasor_sinusoidal_call& c) {
  AddOptions options{.execution = execution_of(c.execution)};
  const Read way(where);
  way.flagged("amplitude", c.has_amplitude, c.amplitude, options.amplitude);
  return options;
}

ShiftOperator shift_of(const char* where, const phasor_shift_operator* shift) {
  const phasor_shift_operator c = known(where, "the shift", need(where, "the shift", shift));
  ShiftOperator value{.width = c.width};
  for (const phasor_shift_pair& pair : span_of(where, "pairs of the shift", c.pairs, c.count)) {
    value.pairs.push_back({pair.sin_channel, pair.cos_channel, pair.cos, pair.sin});
  }
  return value;
}

void give_shift(const char* where, const ShiftOperator& value, phasor_shift_operator* shift) {
  phasor_shift_operator c = known(where, "the shift", shift);
  c.count = value.pairs.size();
  if (c.capacity < c.count || (c.pairs == nullptr && c.count > 0)) {
    give(where, "the shift", c, shift);
    fail(std::string(where) + ": the buffer has room for " + std::to_string(c.pairs == nullptr ? 0 : c.capacity) + " pairs, wanted " +
             std::to_string(c.count),
         PHASOR_TOO_SMALL);
  }
  c.width = value.width;
  std::transform(value.pairs.begin(), value.pairs.end(), c.pairs,
                 [](const ShiftOperator::Pair& pair) { return phasor_shift_pair{pair.sin_channel, pair.cos_channel, pair.cos, pair.sin}; });
  give(where, "the shift", c, shift);
}

}  // namespace

extern "C" {

phasor_status phasor_sinusoidal_make(const phasor_sinusoidal_spec* spec, phasor_sinusoidal** sinusoidal, phasor_error* error) {
  return call(error, [&] {
    need("sinusoidal_make", "sinusoidal", sinusoidal);
    make(sinusoidal_spec_of("sinusoidal_make", spec), sinusoidal);
  });
}

phasor_status phasor_sinusoidal_from_json(const char* text, size_t length, phasor_sinusoidal** sinusoidal, phasor_error* error) {
  return call(error, [&] {
    need("sinusoidal_from_json", "sinusoidal", sinusoidal);
    make(value_of(sinusoidal_spec_from_json(text_of("sinusoidal_from_json", text, length))), sinusoidal);
  });
}

phasor_status phasor_sinusoidal_from_cbor(const uint8_t* bytes, size_t count, phasor_sinusoidal** sinusoidal, phasor_error* error) {
  return call(error, [&] {
    need("sinusoidal_from_cbor", "sinusoidal", sinusoidal);
    make(spec_of_cbor<SinusoidalSpec>("sinusoidal_from_cbor", bytes, count), sinusoidal);
  });
}

void phasor_sinusoidal_free(phasor_sinusoidal* sinusoidal) { delete sinusoidal; }

phasor_status phasor_sinusoidal_to_json(const phasor_sinusoidal* sinusoidal, phasor_text* text, phasor_error* error) {
  constexpr const char* kWhere = "sinusoidal_to_json";
  return call(error, [&] { give(kWhere, value_of(spec_to_json(need(kWhere, "sinusoidal", sinusoidal)->value.spec())), text); });
}

phasor_status phasor_sinusoidal_to_cbor(const phasor_sinusoidal* sinusoidal, phasor_bytes* bytes, phasor_error* error) {
  constexpr const char* kWhere = "sinusoidal_to_cbor";
  return call(error, [&] { give_cbor(kWhere, need(kWhere, "sinusoidal", sinusoidal)->value.spec(), bytes); });
}

phasor_status phasor_sinusoidal_get_spec(const phasor_sinusoidal* sinusoidal, phasor_sinusoidal_spec* spec, phasor_error* error) {
  constexpr const char* kWhere = "sinusoidal_get_spec";
  return call(error, [&] { give(kWhere, "spec", c_sinusoidal_spec_of(need(kWhere, "sinusoidal", sinusoidal)->value.spec()), spec); });
}

int64_t phasor_sinusoidal_axes(const phasor_sinusoidal* sinusoidal) { return sinusoidal == nullptr ? 0 : sinusoidal->value.axes(); }

const double* phasor_sinusoidal_frequencies(const phasor_sinusoidal* sinusoidal, size_t* count) {
  if (count != nullptr) *count = sinusoidal == nullptr ? 0 : sinusoidal->value.frequencies().size();
  return sinusoidal == nullptr ? nullptr : sinusoidal->value.frequencies().data();
}

phasor_status phasor_sinusoidal_fill(const phasor_sinusoidal* sinusoidal, const phasor_sinusoidal_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "fill_sinusoidal";  // as the messages of the library itself
  return call(error, [&] {
    const Sinusoidal& by = need(kWhere, "sinusoidal", sinusoidal)->value;
    phasor_sinusoidal_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    if (c.x != nullptr) fail(std::string(kWhere) + ": x is given, wanted `out` alone");
    const AddOptions options = add_options_of(kWhere, c);
    const TensorView out = tensor_of(kWhere, "out", need(kWhere, "out", c.out));
    must(by.fill(out, positions_of(kWhere, "positions", c.positions), options));
  });
}

phasor_status phasor_sinusoidal_add(const phasor_sinusoidal* sinusoidal, const phasor_sinusoidal_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "add_sinusoidal";
  return call(error, [&] {
    const Sinusoidal& by = need(kWhere, "sinusoidal", sinusoidal)->value;
    phasor_sinusoidal_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const AddOptions options = add_options_of(kWhere, c);
    const InOut x = in_out_of(kWhere, "x", c.x, "out", c.out);
    must(by.add(x, positions_of(kWhere, "positions", c.positions), options));
  });
}

phasor_status phasor_sinusoidal_amplitude_gradient(const phasor_sinusoidal* sinusoidal, const phasor_tensor* gradient,
                                                   phasor_positions positions, double* sum, phasor_error* error) {
  constexpr const char* kWhere = "amplitude_gradient";
  return call(error, [&] {
    const Sinusoidal& by = need(kWhere, "sinusoidal", sinusoidal)->value;
    const TensorView of = tensor_of(kWhere, "gradient", need(kWhere, "gradient", gradient));
    const Positions at = positions_of(kWhere, "positions", positions);
    *need(kWhere, "sum", sum) = value_of(by.amplitude_gradient(of, at));
  });
}

phasor_status phasor_sinusoidal_shift(const phasor_sinusoidal* sinusoidal, const double* distances, size_t count,
                                      phasor_shift_operator* shift, phasor_error* error) {
  constexpr const char* kWhere = "shift";
  return call(error, [&] {
    const Sinusoidal& by = need(kWhere, "sinusoidal", sinusoidal)->value;
    need(kWhere, "the shift", shift);
    give_shift(kWhere, value_of(by.shift(span_of(kWhere, "distances", distances, count))), shift);
  });
}

phasor_status phasor_apply_shift(const phasor_shift_operator* shift, const double* from, double* to, size_t width, phasor_error* error) {
  constexpr const char* kWhere = "apply_shift";
  return call(error, [&] {
    const ShiftOperator by = shift_of(kWhere, shift);
    const auto source = span_of(kWhere, "from", from, width);
    must(apply_shift(by, source, span_of(kWhere, "to", to, width)));
  });
}

phasor_status phasor_matrix_of(const phasor_shift_operator* shift, phasor_doubles* matrix, phasor_error* error) {
  constexpr const char* kWhere = "matrix_of";
  return call(error, [&] {
    const ShiftOperator of = shift_of(kWhere, shift);
    if (of.width < 0 || of.width > kWidest) {
      fail(std::string(kWhere) + ": the width is " + std::to_string(of.width) + ", wanted 0 to " + std::to_string(kWidest));
    }
    const auto width = static_cast<std::size_t>(of.width);
    need_room(kWhere, width * width, matrix);  // before a large one is made
    const std::vector<double> dense = value_of(matrix_of(of));
    give(kWhere, dense.data(), dense.size(), matrix);
  });
}

}  // extern "C"
