// SPDX-License-Identifier: Apache-2.0
// What a job may be made of: numbers, pointers to numbers, and structs that list all their members, which are such again. A device gets a
// job as bytes, so nothing in it may lead to state of the host: no vector, variant, function or plan, and no pointer to one.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "math/angle.hpp"
#include "math/phase/phase.hpp"
#include "phasor/bias.hpp"
#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"
#include "spec/additive.hpp"

/// Lists the members of a struct, in its namespace: a structured binding wants every one, so a list that lacks one does not compile.
#define PHASOR_MEMBERS(Type, ...)              \
  constexpr auto members_of(const Type& all) { \
    const auto& [__VA_ARGS__] = all;           \
    return std::tie(__VA_ARGS__);              \
  }

namespace phasor {

PHASOR_MEMBERS(Device, kind, index)
PHASOR_MEMBERS(TensorView, data, dtype, shape, strides, device)
PHASOR_MEMBERS(ConstTensorView, data, dtype, shape, strides, device)
PHASOR_MEMBERS(Positions, data, type, shape, strides, offset, device)
PHASOR_MEMBERS(PositionsView, data, type, shape, strides, device)
PHASOR_MEMBERS(BiasPart, first_head, query_position)
PHASOR_MEMBERS(Window, height, width)

namespace math {
PHASOR_MEMBERS(Step, fraction, whole)
PHASOR_MEMBERS(GgmlPair, divisor, scale, mix)
PHASOR_MEMBERS(RunningPair, rung, ratio, angle)
}  // namespace math

namespace spec {
PHASOR_MEMBERS(AxisPart, channel, width, pair, pairs, axis, unpaired)
}  // namespace spec

namespace plan {
class DeviceCopies;
}

namespace job {

template <class T>
concept ListsMembers = requires(const T& x) { members_of(x); };

template <class T>
inline constexpr bool is_array_of_numbers = std::is_array_v<T> && std::is_arithmetic_v<std::remove_all_extents_t<T>>;
template <class T, std::size_t n>
inline constexpr bool is_array_of_numbers<std::array<T, n>> = std::is_arithmetic_v<T>;

template <class T>
constexpr bool is_plain();

/// A member of `Owner`: plain, or a pointer to something plain, to bytes, or to another one of `Owner`; or to where devices keep copies of
/// host tables, which the host asks before it sends the bytes, and the device does not follow.
template <class Member, class Owner>
constexpr bool is_plain_member() {
  if constexpr (std::is_pointer_v<Member>) {
    using To = std::remove_cv_t<std::remove_pointer_t<Member>>;
    if constexpr (std::is_void_v<To> || std::is_same_v<To, Owner> || std::is_same_v<To, plan::DeviceCopies>) return true;
    return is_plain<To>();
  } else {
    return is_plain<std::remove_all_extents_t<Member>>();
  }
}

template <class Owner, class... Members>
constexpr bool are_plain_members(std::type_identity<std::tuple<Members...>> /*members*/) {
  return (is_plain_member<std::remove_cvref_t<Members>, Owner>() && ...);
}

template <class T>
constexpr bool is_plain() {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || is_array_of_numbers<T>) {
    return true;
  } else if constexpr (ListsMembers<T>) {
    return std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
           are_plain_members<T>(std::type_identity<decltype(members_of(std::declval<const T&>()))>());
  } else {
    return false;
  }
}

}  // namespace job
}  // namespace phasor
