// SPDX-License-Identifier: Apache-2.0
// Axes of a rotary spec: the orders that models deal axes out to pairs in, and what does not fit together.
#include "spec/axes.hpp"

#include <algorithm>
#include <variant>

#include "spec/format.hpp"
#include "spec/rotary.hpp"

namespace phasor::spec {
namespace {

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid("RotarySpec: " + spec::format(format, std::forward<Args>(args)...));
}

std::int64_t pairs_of(const RotarySpec& spec) { return rotary_width(spec) / 2; }

/// Positive, at most 4 of them, and as many pairs as there are.
Status check_sections(const Axes& axes, std::int64_t pairs) {
  const auto count = static_cast<std::int64_t>(axes.sections.size());
  if (count > kMostAxes) return wrong("axes.sections has {} entries, wanted at most {}", count, kMostAxes);
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < axes.sections.size(); ++a) {
    const std::int64_t section = axes.sections[a];
    if (section < 1 || section > pairs) return wrong("axes.sections[{}] is {}, wanted 1 to {}, half the rotary width", a, section, pairs);
    sum += section;
  }
  if (sum != pairs) return wrong("axes.sections sum to {}, wanted {}, half the rotary width", sum, pairs);
  return {};
}

Status check_given(const Axes& axes, std::int64_t pairs) {
  const auto size = static_cast<std::int64_t>(axes.axis_of_pair.size());
  if (size != pairs) return wrong("axes.axis_of_pair has {} entries, wanted {}, half the rotary width", size, pairs);
  const std::int64_t count = axes.sections.empty() ? kMostAxes : static_cast<std::int64_t>(axes.sections.size());
  for (std::size_t i = 0; i < axes.axis_of_pair.size(); ++i) {
    if (axes.axis_of_pair[i] >= count) return wrong("axes.axis_of_pair[{}] is {}, wanted less than {}", i, axes.axis_of_pair[i], count);
  }
  for (std::size_t a = 0; a < axes.sections.size(); ++a) {
    const auto is = std::count(axes.axis_of_pair.begin(), axes.axis_of_pair.end(), static_cast<std::uint8_t>(a));
    if (is != axes.sections[a])
      return wrong("axes.axis_of_pair names axis {} {} times, wanted axes.sections[{}], {}", a, is, a, axes.sections[a]);
  }
  return {};
}

/// Exactly three axes, the two that alternate alike.
Status check_alternating(const Axes& axes) {
  if (axes.sections.size() != 3) return wrong("axes.sections has {} entries, wanted 3 for the alternating order", axes.sections.size());
  if (axes.sections[1] != axes.sections[2]) {
    return wrong("axes.sections[1] is {} and axes.sections[2] is {}, wanted the same for the alternating order", axes.sections[1],
                 axes.sections[2]);
  }
  return {};
}

Status check_order(const RotarySpec& spec) {
  const Axes& axes = spec.axes;
  const bool given = axes.order == AxisOrder::given;
  if (axes.order > AxisOrder::given) {
    return wrong("axes.order is {}, wanted chunked, interleaved, alternating or given", static_cast<int>(axes.order));
  }
  if (axes.ladder > AxisLadder::dealt) return wrong("axes.ladder is {}, wanted shared, own or dealt", static_cast<int>(axes.ladder));
  if (!given && !axes.axis_of_pair.empty()) {
    return wrong("axes.axis_of_pair has {} entries, wanted none unless axes.order is given", axes.axis_of_pair.size());
  }
  if (axes.sections.empty() && !given && axes.order != AxisOrder::chunked) {
    return wrong("axes.sections is empty, wanted the pairs of each axis for the order {}",
                 axes.order == AxisOrder::interleaved ? "interleaved" : "alternating");
  }
  if (!axes.sections.empty()) {
    if (Status status = check_sections(axes, pairs_of(spec)); !status) return status;
  }
  if (given) return check_given(axes, pairs_of(spec));
  return axes.order == AxisOrder::alternating ? check_alternating(axes) : Status();
}

/// A dealt ladder must have the steps that its axes are dealt: it has when the sections are alike.
Status check_dealt(const RotarySpec& spec) {
  const std::vector<std::int64_t> counts = pairs_of_axis(spec);
  const auto axes = static_cast<std::int64_t>(counts.size());
  for (std::int64_t a = 0; a < axes; ++a) {
    const std::int64_t last = (counts[static_cast<std::size_t>(a)] - 1) * axes + a;
    if (counts[static_cast<std::size_t>(a)] > 0 && last >= pairs_of(spec)) {
      return wrong("axes.ladder is dealt and axis {} has {} of {} pairs, wanted sections alike", a, counts[static_cast<std::size_t>(a)],
                   pairs_of(spec));
    }
  }
  return {};
}

/// Lists hold a number for each pair: which of them a pair of an own or dealt ladder meant would be a guess.
bool has_list(const Scaling& scaling) {
  return std::holds_alternative<LongRopeScaling>(scaling) || std::holds_alternative<GivenFactors>(scaling) ||
         std::holds_alternative<GivenFrequencies>(scaling);
}

Status check_ladder(const RotarySpec& spec) {
  if (spec.axes.ladder == AxisLadder::shared) return {};
  const char* ladder = spec.axes.ladder == AxisLadder::own ? "own" : "dealt";
  if (has_list(spec.scaling)) return wrong("axes.ladder is {} and the scaling has a list for each pair, wanted a shared ladder", ladder);
  return spec.axes.ladder == AxisLadder::dealt ? check_dealt(spec) : Status();
}

/// Every pair has a direction of its own: sections would say the same again, or something else.
Status check_directions(const RotarySpec& spec) {
  if (!spec.axes.sections.empty() || spec.axes.order != AxisOrder::chunked || spec.axes.ladder != AxisLadder::shared ||
      !spec.axes.axis_of_pair.empty()) {
    return wrong("axes are given and the scaling has directions, wanted axes {{}} with GivenDirections");
  }
  if (spec.lanes != Lanes::alike) return wrong("lanes is per_channel_frequencies and the scaling has directions, wanted alike");
  return {};
}

Status check_parts(const RotarySpec& spec) {
  if (spec.segments < 1 || pairs_of(spec) % spec.segments != 0) {
    return wrong("segments is {}, wanted a divisor of {}, half the rotary width", spec.segments, pairs_of(spec));
  }
  if (spec.lanes > Lanes::per_channel_frequencies)
    return wrong("lanes is {}, wanted alike or per_channel_frequencies", static_cast<int>(spec.lanes));
  if (spec.lanes == Lanes::per_channel_frequencies &&
      (spec.pairing != Pairing::interleaved || spec.output_pairing.value_or(spec.pairing) != Pairing::interleaved)) {
    return wrong(
        "lanes is per_channel_frequencies and a pairing is half, wanted interleaved: in half pairing both lanes of a pair have one "
        "frequency");
  }
  return {};
}

/// YaRN and Llama 3 compare wavelengths with a length in positions; their formulas take frequencies in radians.
Status check_unit(const RotarySpec& spec) {
  if (spec.unit > FrequencyUnit::turns) return wrong("unit is {}, wanted radians or turns", static_cast<int>(spec.unit));
  const bool compares = std::holds_alternative<YarnScaling>(spec.scaling) || std::holds_alternative<Llama3Scaling>(spec.scaling);
  if (spec.unit == FrequencyUnit::turns && compares) return wrong("unit is turns, wanted radians for a scaling by wavelength");
  return {};
}

}  // namespace

std::int64_t axis_count(const RotarySpec& spec) {
  if (const auto* directions = std::get_if<GivenDirections>(&spec.scaling)) return directions->axes;
  if (!spec.axes.sections.empty()) return static_cast<std::int64_t>(spec.axes.sections.size());
  if (spec.axes.axis_of_pair.empty()) return 1;
  return *std::max_element(spec.axes.axis_of_pair.begin(), spec.axes.axis_of_pair.end()) + 1;
}

std::vector<std::uint8_t> axis_of_pair(const RotarySpec& spec) {
  const Axes& axes = spec.axes;
  if (axes.order == AxisOrder::given) return axes.axis_of_pair;
  std::vector<std::uint8_t> list(static_cast<std::size_t>(pairs_of(spec)), 0);
  const auto count = axes.sections.size();
  if (axes.order == AxisOrder::chunked) {
    auto next = list.begin();
    for (std::size_t a = 0; a < count; ++a) next = std::fill_n(next, axes.sections[a], static_cast<std::uint8_t>(a));
  } else if (axes.order == AxisOrder::interleaved) {
    for (std::size_t k = 0; k < list.size(); ++k) {
      const std::size_t a = k % count;
      if (static_cast<std::int64_t>(k / count) < axes.sections[a]) list[k] = static_cast<std::uint8_t>(a);
    }
  } else {
    const auto alternating = static_cast<std::size_t>(2 * axes.sections[1]);
    for (std::size_t k = 0; k < alternating; ++k) list[k] = static_cast<std::uint8_t>(1 + k % 2);
  }
  return list;
}

std::vector<std::int64_t> pairs_of_axis(const RotarySpec& spec) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(axis_count(spec)), 0);
  for (const std::uint8_t axis : axis_of_pair(spec)) ++counts[axis];
  return counts;
}

Status check_axes(const RotarySpec& spec) {
  if (Status status = check_parts(spec); !status) return status;
  if (Status status = check_unit(spec); !status) return status;
  if (std::holds_alternative<GivenDirections>(spec.scaling)) return check_directions(spec);
  if (Status status = check_order(spec); !status) return status;
  return check_ladder(spec);
}

}  // namespace phasor::spec
