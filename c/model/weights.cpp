// SPDX-License-Identifier: Apache-2.0
// Weights between pairings, in C.
#include "phasor/weights.hpp"

#include <memory>
#include <optional>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "handles.hpp"
#include "phasor/c/model.h"

namespace {

using namespace phasor;
using namespace phasor::c;

static_assert(static_cast<int>(PairingRelation::different) == PHASOR_RELATION_DIFFERENT);

PermuteOptions permute_options_of(const char* where, const phasor_permute_options* options) {
  phasor_permute_options c = known(where, "the options", options);
  PermuteOptions value;
  const Read way(where);
  way.choice("from", c.from, value.from, 2);
  std::optional<Pairing> to;
  way.flagged_choice("to", c.has_to, c.to, to, 2);
  value.to = to.value_or(value.from == Pairing::half ? Pairing::interleaved : Pairing::half);
  way("heads", c.heads, value.heads);
  way("kv_heads", c.kv_heads, value.kv_heads);
  way("head_dim", c.head_dim, value.head_dim);
  way("rotary_width", c.rotary_width, value.rotary_width);
  way("rotary_offset", c.rotary_offset, value.rotary_offset);
  if (c.prefix != nullptr) value.prefix = c.prefix;
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_permute_safetensors(const char* from_path, const char* to_path, const phasor_permute_options* options,
                                         phasor_permute_report** report, phasor_error* error) {
  constexpr const char* kWhere = "permute_safetensors";
  return call(error, [&] {
    need(kWhere, "from_path", from_path);
    need(kWhere, "to_path", to_path);
    auto made = std::make_unique<phasor_permute_report>();  // before the file: whoever finds it whole finds its report
    made->value = value_of(permute_safetensors(from_path, to_path, permute_options_of(kWhere, options)));
    if (report != nullptr) *report = made.release();
  });
}

void phasor_permute_report_free(phasor_permute_report* report) { delete report; }

size_t phasor_permute_report_permuted(const phasor_permute_report* report) { return report == nullptr ? 0 : report->value.permuted.size(); }

const char* phasor_permute_report_name(const phasor_permute_report* report, size_t index) {
  return index < phasor_permute_report_permuted(report) ? report->value.permuted[index].c_str() : nullptr;
}

int64_t phasor_permute_report_copied(const phasor_permute_report* report) { return report == nullptr ? 0 : report->value.copied; }

phasor_status phasor_detect_pairing(const char* left_path, const char* right_path, const phasor_permute_options* shape,
                                    phasor_pairing_relation* relation, phasor_error* error) {
  constexpr const char* kWhere = "detect_pairing";
  return call(error, [&] {
    need(kWhere, "left_path", left_path);
    need(kWhere, "right_path", right_path);
    need(kWhere, "relation", relation);
    *relation = static_cast<phasor_pairing_relation>(value_of(detect_pairing(left_path, right_path, permute_options_of(kWhere, shape))));
  });
}

}  // extern "C"
