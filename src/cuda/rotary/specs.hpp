// SPDX-License-Identifier: Apache-2.0
// Several specs in one call: where the rows of a token come from. Runs on the host, too, for tests.
#pragma once

#include "cuda/rotary/row_value.hpp"
#include "job/specs/list.hpp"

namespace phasor::cuda {

/// The specs of a launch where they lie, in a kernel's parameter or on the host; `tables` as of Rows.
struct SpecsAt {
  const job::SpecList* list;
  const job::RowSource* rows;  // the list's; null: one spec for every token
  const std::byte* tables;
};

/// The source of a token's rows, by `one` where the call has one spec. Null: this launch does not have the token's spec, and leaves it
/// alone.
PHASOR_HD inline Rows rows_at(const SpecsAt& specs, const Rows& one, int64_t batch, int64_t token) {
  if (specs.rows == nullptr) return one;
  const int64_t spec = job::spec_at(*specs.list, batch, token);
  const bool here = spec >= 0 && spec < specs.list->count;
  return {here ? specs.rows + spec : nullptr, specs.tables};
}

}  // namespace phasor::cuda
