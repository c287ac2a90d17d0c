// SPDX-License-Identifier: Apache-2.0
// Biases in C: made, read, filled, differentiated.
#include "phasor/bias.hpp"

#include "core/call.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/c/bias.h"
#include "phasor/serialised.hpp"
#include "specs/bias.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

void make(const BiasSpec& spec, phasor_bias** bias) { *bias = new phasor_bias{value_of(Bias::make(spec))}; }

}  // namespace

extern "C" {

phasor_status phasor_bias_make(const phasor_bias_spec* spec, phasor_bias** bias, phasor_error* error) {
  return call(error, [&] {
    need("bias_make", "bias", bias);
    make(bias_spec_of("bias_make", spec), bias);
  });
}

phasor_status phasor_bias_from_json(const char* text, size_t length, phasor_bias** bias, phasor_error* error) {
  return call(error, [&] {
    need("bias_from_json", "bias", bias);
    make(value_of(bias_spec_from_json(text_of("bias_from_json", text, length))), bias);
  });
}

phasor_status phasor_bias_from_cbor(const uint8_t* bytes, size_t count, phasor_bias** bias, phasor_error* error) {
  return call(error, [&] {
    need("bias_from_cbor", "bias", bias);
    make(spec_of_cbor<BiasSpec>("bias_from_cbor", bytes, count), bias);
  });
}

phasor_status phasor_bias_with_parameters(const phasor_bias* bias, const double* parameters, size_t count, phasor_bias** made,
                                          phasor_error* error) {
  constexpr const char* kWhere = "Bias::with_parameters";
  return call(error, [&] {
    const Bias& of = need(kWhere, "bias", bias)->value;
    need(kWhere, "made", made);
    *made = new phasor_bias{value_of(of.with_parameters(span_of(kWhere, "parameters", parameters, count)))};
  });
}

void phasor_bias_free(phasor_bias* bias) { delete bias; }

phasor_status phasor_bias_to_json(const phasor_bias* bias, phasor_text* text, phasor_error* error) {
  return call(error, [&] { give("bias_to_json", value_of(spec_to_json(need("bias_to_json", "bias", bias)->value.spec())), text); });
}

phasor_status phasor_bias_to_cbor(const phasor_bias* bias, phasor_bytes* bytes, phasor_error* error) {
  return call(error, [&] { give_cbor("bias_to_cbor", need("bias_to_cbor", "bias", bias)->value.spec(), bytes); });
}

phasor_status phasor_bias_get_spec(const phasor_bias* bias, phasor_bias_spec* spec, phasor_error* error) {
  constexpr const char* kWhere = "bias_get_spec";
  return call(error, [&] { give(kWhere, "spec", c_bias_spec_of(need(kWhere, "bias", bias)->value.spec()), spec); });
}

int64_t phasor_bias_heads(const phasor_bias* bias) { return bias == nullptr ? 0 : bias->value.heads(); }
int64_t phasor_bias_parameter_count(const phasor_bias* bias) { return bias == nullptr ? 0 : bias->value.parameter_count(); }

const double* phasor_bias_slopes(const phasor_bias* bias, size_t* count) {
  if (count != nullptr) *count = bias == nullptr ? 0 : bias->value.slopes().size();
  return bias == nullptr ? nullptr : bias->value.slopes().data();
}

int64_t phasor_bias_rows(const phasor_bias* bias) { return bias == nullptr ? 0 : bias->value.rows(); }
int64_t phasor_bias_row(const phasor_bias* bias, int64_t distance) { return bias == nullptr ? -1 : bias->value.row(distance); }

phasor_status phasor_bias_diagonal(const phasor_bias* bias, const phasor_bias_diagonal_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "Bias::diagonal";  // as the messages of the library itself
  return call(error, [&] {
    const Bias& of = need(kWhere, "bias", bias)->value;
    const phasor_bias_diagonal_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    must(of.diagonal(tensor_of(kWhere, "out", need(kWhere, "out", c.out)), c.first_distance,
                     {.first_head = c.first_head, .query_position = c.query_position}, execution_of(c.execution)));
  });
}

phasor_status phasor_bias_fill(const phasor_bias* bias, const phasor_bias_fill_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "Bias::fill";
  return call(error, [&] {
    const Bias& of = need(kWhere, "bias", bias)->value;
    const phasor_bias_fill_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const TensorView out = tensor_of(kWhere, "out", need(kWhere, "out", c.out));
    const Positions queries = positions_of(kWhere, "queries", c.queries);
    must(of.fill(out, queries, positions_of(kWhere, "keys", c.keys), c.first_head, execution_of(c.execution)));
  });
}

phasor_status phasor_bias_gradient(const phasor_bias* bias, const phasor_bias_gradient_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "Bias::gradient";
  return call(error, [&] {
    const Bias& of = need(kWhere, "bias", bias)->value;
    const phasor_bias_gradient_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const TensorView sum = tensor_of(kWhere, "sum", need(kWhere, "sum", c.sum));
    must(of.gradient(sum, tensor_of(kWhere, "diagonal", need(kWhere, "diagonal", c.diagonal)), c.first_distance,
                     {.first_head = c.first_head, .query_position = c.query_position}, execution_of(c.execution)));
  });
}

}  // extern "C"
