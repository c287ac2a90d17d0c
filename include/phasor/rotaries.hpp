// SPDX-License-Identifier: Apache-2.0
// Several rotary encodings in one call: requests of a batch whose specs differ (YaRN 1, 2 and 4, dynamic lengths).
#pragma once

#include <span>

#include "phasor/cache.hpp"
#include "phasor/rotary.hpp"

namespace phasor {

/// Which of `rotaries` turns what: `spec_of` has its index for each batch row (B of them) or each token (B T), on the device of the call.
/// All agree in head_dim, width, offset, segments, pairings, lanes, sense and numerics: they differ in base, scaling and axes.
struct RotaryList {
  std::span<const Rotary> rotaries{};
  IntegerList spec_of{};  // may be null where there is one rotary
};

/// Rotates q and k as Rotary::apply does, each row by its own spec: bitwise what a call for each spec with its rows alone gives. An index
/// that no rotary has is an error on a CPU, which names it; on a GPU indices are the caller's word, and a row with a wrong one is left
/// alone. Allocates some hundred bytes per rotary; nothing is written when it fails.
Status apply_rotaries(const RotaryList& list, const InOut& q, const InOut& k, const Positions& positions, const ApplyOptions& options = {});
Status apply_rotaries(const RotaryList& list, const InOut& q, const Positions& positions, const ApplyOptions& options = {});

}  // namespace phasor
