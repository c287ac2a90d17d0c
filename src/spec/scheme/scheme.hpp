// SPDX-License-Identifier: Apache-2.0
// Validation of an attention scheme: every field, with the reason.
#pragma once

#include "phasor/scheme.hpp"

namespace phasor::spec {

/// An error says which field, what it is, what is wanted: "AttentionScheme: terms[1]: scale is inf, wanted a finite number".
Status check(const AttentionScheme& scheme);

}  // namespace phasor::spec
