// SPDX-License-Identifier: Apache-2.0
// Attention schemes between C and C++.
#pragma once

#include "phasor/c/scheme.h"
#include "phasor/scheme.hpp"

namespace phasor::c {

AttentionScheme attention_scheme_of(const char* where, const phasor_attention_scheme* scheme);

/// All but content and terms; their number is set.
phasor_attention_scheme c_scheme_of(const AttentionScheme& scheme);
/// All but the rotary and the map.
phasor_content_scheme c_content_of(const ContentScheme& content);
/// Null where it has none.
const RotarySpec* rotary_of(const ContentScheme& content);
const PositionMap* map_of(const ContentScheme& content);
/// All but the bias.
phasor_term_scheme c_term_of(const TermScheme& term);
/// Null where it has none.
const BiasSpec* bias_of(const TermScheme& term);

}  // namespace phasor::c
