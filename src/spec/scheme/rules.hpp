// SPDX-License-Identifier: Apache-2.0
// Rules for the numbers of attention, whether they come as a scheme or with a call. `where` begins messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "phasor/attention.hpp"

namespace phasor::spec {

Status check_finite(std::string_view where, std::string_view name, double value);
Status check_softcap(std::string_view where, double softcap);
/// By the field's name, which differs between a scheme and a call.
Status check_dropout_probability(std::string_view where, std::string_view name, double probability);
Status check_mask(std::string_view where, std::string_view name, Mask mask);

/// Windows, groups and chunks that make sense.
Status check_position_map(std::string_view where, const PositionMap& map);
/// A map shows distances that are not negative, of keys that are rotated in each pass anew. The prefix is for the call to look at.
Status check_map_use(std::string_view where, const PositionMap& map, KeyState keys, Mask mask);
Status check_key_state(std::string_view where, KeyState keys);
Status check_xpos(std::string_view where, const RotarySpec& rotary, double gamma, double scale_base);

Status check_clip(std::string_view where, const ClipRows& clip);
Status check_side(std::string_view where, TableSide side);
/// Buckets of distances choose rows; other biases do not.
Status check_bucket_rows(std::string_view where, const BiasSpec& rows);
Status check_window(std::string_view where, std::string_view name, const Window& window);

/// What the certificate of skipped tiles is about: ALiBi alone, over plain scores.
struct SkipRule {
  TileSkip skip = TileSkip::none;
  const Alibi* alibi = nullptr;  // of the one term; null: another, or several
  bool gate = false;
  Mask mask = Mask::full;
  bool prefix = false;
  bool plain = true;  // PlainContent without a shift, no soft cap
  double dropout = 0;
};
Status check_skip(std::string_view where, const SkipRule& rule);

}  // namespace phasor::spec
