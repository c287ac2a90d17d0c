// SPDX-License-Identifier: Apache-2.0
// Positions: which position each token of each batch row has, as a view of the caller's memory or as an offset.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

enum class PositionType : std::uint8_t { i32, i64, f64 };

/// Axes (axes, B, T), strides in elements, 0 to share. B = 1 is shared by every batch row.
/// `data` null means offset, offset + 1, ... along T in every batch row (wrapping like int64).
/// A spec of several axes takes as many, or one that every axis shares (text): an offset always is shared.
struct Positions {
  const void* data = nullptr;
  PositionType type = PositionType::i64;
  std::array<std::int64_t, 3> shape{1, 1, 0};
  std::array<std::int64_t, 3> strides{0, 0, 1};
  std::int64_t offset = 0;
  Device device{};  // of `data`; an offset is on none
};

inline Positions positions_from(std::int64_t offset) { return {.offset = offset}; }

template <class T>
inline constexpr PositionType position_type_of = [] {
  static_assert(sizeof(T) == 0, "phasor: positions are std::int32_t, std::int64_t or double");
  return PositionType::i64;
}();
template <>
inline constexpr PositionType position_type_of<std::int32_t> = PositionType::i32;
template <>
inline constexpr PositionType position_type_of<std::int64_t> = PositionType::i64;
template <>
inline constexpr PositionType position_type_of<double> = PositionType::f64;

/// Memory that positions are written to: axes (axes, B, T), strides in elements, no element twice.
struct PositionsView {
  void* data = nullptr;
  PositionType type = PositionType::i64;
  std::array<std::int64_t, 3> shape{1, 1, 0};
  std::array<std::int64_t, 3> strides{0, 0, 1};
  Device device{};

  operator Positions() const { return {data, type, shape, strides, 0, device}; }  // NOLINT(google-explicit-constructor)
};

/// (axes, B, T), contiguous. Memory that may be written gives a PositionsView, which is Positions too.
template <class T>
Positions positions(const T* data, std::int64_t axes, std::int64_t batch, std::int64_t tokens) {
  return {.data = data, .type = position_type_of<T>, .shape = {axes, batch, tokens}, .strides = {batch * tokens, tokens, 1}};
}
template <class T>
PositionsView positions(T* data, std::int64_t axes, std::int64_t batch, std::int64_t tokens) {
  return {.data = data, .type = position_type_of<T>, .shape = {axes, batch, tokens}, .strides = {batch * tokens, tokens, 1}};
}
/// (B, T), contiguous.
template <class T>
auto positions(T* data, std::int64_t batch, std::int64_t tokens) {
  return positions(data, 1, batch, tokens);
}
/// (T), shared by every batch row.
template <class T>
auto positions(T* data, std::int64_t tokens) {
  return positions(data, 1, 1, tokens);
}

/// Factor on a query by its position p. log_n: max(1, ln(p + 1) / ln(length)); floored_log: 1 + scale ln(1 + floor((p + shift) / length))
/// (Llama 4: scale 0.1, shift 1; Ministral 3 and Mistral 4: shift 0).
struct QueryTemperature {
  enum class Kind : std::uint8_t { log_n, floored_log };
  Kind kind = Kind::log_n;
  double scale = 0;
  std::int64_t length = 0;
  std::int64_t shift = 0;
};
/// The float64 nearest to the factor; NaN where the formula has no value (p below -shift, a length below 1, for log_n below 2).
double query_temperature(const QueryTemperature& temperature, std::int64_t position);
/// One factor per position, (B, T) in order, each the float32 nearest to the formula's value.
Status fill_temperature(std::span<float> out, const QueryTemperature& temperature, const Positions& positions);

}  // namespace phasor
