// SPDX-License-Identifier: Apache-2.0
// The rules, one function each.
#include "spec/scheme/rules.hpp"

#include <cmath>
#include <utility>
#include <variant>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 53;  // of a map's window, group or chunk
constexpr std::int64_t kLargestWindow = 1 << 15;          // a side of a grid: tables are counted in 64 bits

template <class... Values>
Status wrong(std::string_view where, fmt::format_string<Values...> text, Values&&... values) {
  return Status::invalid(spec::format("{}: {}", where, spec::format(text, std::forward<Values>(values)...)));
}

Status check_length(std::string_view where, const char* name, std::int64_t n) {
  return n >= 1 && n <= kLongest ? Status() : wrong(where, "{} is {}, wanted 1 to 2^53", name, n);
}

Status check_map(std::string_view where, const ReRope& map) { return check_length(where, "window", map.window); }
Status check_map(std::string_view where, const LeakyReRope& map) {
  if (Status s = check_length(where, "window", map.window); !s) return s;
  return map.factor > 0 && map.factor <= 0x1p53 ? Status() : wrong(where, "factor is {}, wanted above 0 and at most 2^53", map.factor);
}
Status check_map(std::string_view where, const SelfExtend& map) {
  if (Status s = check_length(where, "window", map.window); !s) return s;
  return check_length(where, "group", map.group);
}
Status check_map(std::string_view where, const DualChunk& map) {
  if (Status s = check_length(where, "chunk", map.chunk); !s) return s;
  return map.local >= 0 && map.local < map.chunk ? Status() : wrong(where, "local is {}, wanted at least 0 and below chunk", map.local);
}

}  // namespace

Status check_finite(std::string_view where, std::string_view name, double value) {
  return std::isfinite(value) ? Status() : wrong(where, "{} is {}, wanted a finite number", name, value);
}

Status check_softcap(std::string_view where, double softcap) {
  if (std::isfinite(softcap) && softcap >= 0) return {};
  return wrong(where, "softcap is {}, wanted 0 (none) or a finite number above", softcap);
}

Status check_dropout_probability(std::string_view where, std::string_view name, double probability) {
  if (probability >= 0 && probability < 1) return {};
  return wrong(where, "{} is {}, wanted 0 or above, and below 1", name, probability);
}

Status check_mask(std::string_view where, std::string_view name, Mask mask) {
  return mask <= Mask::causal ? Status() : wrong(where, "{} is {}, wanted full or causal", name, static_cast<int>(mask));
}

Status check_position_map(std::string_view where, const PositionMap& map) {
  return std::visit([where](const auto& one) { return check_map(where, one); }, map);
}

Status check_map_use(std::string_view where, const PositionMap& map, KeyState keys, Mask mask) {
  if (Status s = check_position_map(std::string(where) + ": content.map", map); !s) return s;
  if (keys != KeyState::unrotated) return wrong(where, "content has a map and rotated keys, wanted them unrotated");
  return mask == Mask::causal ? Status() : wrong(where, "content has a map and mask is full, wanted causal");
}

Status check_key_state(std::string_view where, KeyState keys) {
  return keys <= KeyState::rotated ? Status() : wrong(where, "content.keys is {}, wanted unrotated or rotated", static_cast<int>(keys));
}

Status check_xpos(std::string_view where, const RotarySpec& rotary, double gamma, double scale_base) {
  if (!(gamma > 0) || !std::isfinite(gamma)) return wrong(where, "content.gamma is {}, wanted above 0", gamma);
  if (!(scale_base > 0) || !std::isfinite(scale_base)) return wrong(where, "content.scale_base is {}, wanted above 0", scale_base);
  if (rotary.segments == 1 && rotary.lanes == Lanes::alike && rotary.axes.sections.size() <= 1 && rotary.axes.axis_of_pair.empty() &&
      !std::holds_alternative<GivenDirections>(rotary.scaling)) {
    return {};
  }
  return wrong(where, "xPos has a rotary of several axes, segments, per-channel frequencies or directions, wanted a plain one");
}

Status check_clip(std::string_view where, const ClipRows& clip) {
  if (clip.outside > OutsideRows::zero) return wrong(where, "rows.outside is unknown, wanted clamp or zero");
  if (clip.left >= 0 && clip.right >= 0) return {};
  return wrong(where, "rows has left {} and right {}, wanted none below 0", clip.left, clip.right);
}

Status check_side(std::string_view where, TableSide side) {
  return side <= TableSide::value ? Status() : wrong(where, "side is unknown, wanted query, key or value");
}

Status check_bucket_rows(std::string_view where, const BiasSpec& rows) {
  if (std::holds_alternative<T5Buckets>(rows) || std::holds_alternative<DebertaBuckets>(rows) || std::holds_alternative<ShawClip>(rows)) {
    return {};
  }
  return wrong(where, "rows is a bias without buckets of distances, wanted T5Buckets, DebertaBuckets or ShawClip");
}

Status check_window(std::string_view where, std::string_view name, const Window& window) {
  if (window.height >= 1 && window.width >= 1 && window.height <= kLargestWindow && window.width <= kLargestWindow) return {};
  return wrong(where, "{} is {} x {}, wanted 1 to {} each", name, window.height, window.width, kLargestWindow);
}

Status check_skip(std::string_view where, const SkipRule& rule) {
  if (rule.skip > TileSkip::certified) return wrong(where, "skip is {}, wanted none or certified", static_cast<int>(rule.skip));
  if (rule.skip == TileSkip::none) return {};
  if (rule.alibi == nullptr || rule.alibi->form == AlibiForm::key_position || rule.gate) {
    return wrong(where, "skip is certified, wanted one term: symmetric or causal ALiBi without a gate");
  }
  if (rule.mask != Mask::causal || rule.prefix) return wrong(where, "skip is certified, wanted a causal mask without a prefix");
  if (!rule.plain) return wrong(where, "skip is certified, wanted PlainContent without content_shift and softcap");
  if (rule.dropout > 0) return wrong(where, "skip is certified and dropout.probability is {}, wanted 0", rule.dropout);
  return {};
}

}  // namespace phasor::spec
