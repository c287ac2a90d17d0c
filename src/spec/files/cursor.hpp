// SPDX-License-Identifier: Apache-2.0
// Cursor: reads numbers and text out of bytes and cannot leave them; what does not fit is a ReadError with the byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "phasor/result.hpp"
#include "spec/format.hpp"
#include "spec/utf8.hpp"

namespace phasor::spec {

/// Thrown inside the readers only; every public function catches it.
struct ReadError {
  Status status;
  bool past_end = false;  // more bytes might have helped
};

[[noreturn]] inline void fail(std::string message) { throw ReadError{Status::invalid(printable_utf8(std::move(message)))}; }

/// a + b and a * b, or an error that says which sum does not fit.
inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, std::string_view what) {
  if (a > std::numeric_limits<std::uint64_t>::max() - b) fail(spec::format("{}: {} + {} does not fit 64 bits", what, a, b));
  return a + b;
}
inline std::uint64_t checked_multiply(std::uint64_t a, std::uint64_t b, std::string_view what) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) fail(spec::format("{}: {} * {} does not fit 64 bits", what, a, b));
  return a * b;
}

enum class ByteOrder : std::uint8_t { little, big };

class Cursor {
 public:
  Cursor(std::string_view dialect, std::span<const std::byte> bytes) : dialect_(dialect), bytes_(bytes) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }
  void set_order(ByteOrder order) { order_ = order; }
  ByteOrder order() const { return order_; }

  /// An unsigned number of sizeof(T) bytes; what it is for goes into the error.
  template <class T>
  T number(std::string_view what) {
    const std::span<const std::byte> bytes = take(sizeof(T), what);
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      const std::size_t place = order_ == ByteOrder::little ? i : sizeof(T) - 1 - i;
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(std::to_integer<std::uint8_t>(bytes[i])) << (8 * place)));
    }
    return value;
  }
  float float32(std::string_view what) { return from_bits<float>(number<std::uint32_t>(what)); }
  double float64(std::string_view what) { return from_bits<double>(number<std::uint64_t>(what)); }

  std::string_view text(std::uint64_t length, std::string_view what) {
    const std::span<const std::byte> bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> take(std::uint64_t length, std::string_view what) {
    need(length, what);
    const std::span<const std::byte> bytes = bytes_.subspan(static_cast<std::size_t>(offset_), static_cast<std::size_t>(length));
    offset_ += length;
    return bytes;
  }
  /// Fails unless that many bytes are left: called before anything is reserved for them.
  void need(std::uint64_t length, std::string_view what) const {
    if (length <= remaining()) return;
    throw ReadError{.status = Status::invalid(
                        spec::format("{}: byte {}: {} takes {} bytes, {} are left", dialect_, offset_, what, length, remaining())),
                    .past_end = true};
  }
  /// `count` things of at least `each` bytes must still be there.
  void need_many(std::uint64_t count, std::uint64_t each, std::string_view what) const {
    if (count <= remaining() / each) return;
    throw ReadError{.status = Status::invalid(spec::format("{}: byte {}: {} is {}, wanted at most {}, what the remaining {} bytes can hold",
                                                           dialect_, offset_, what, count, remaining() / each, remaining())),
                    .past_end = true};
  }
  [[noreturn]] void wrong(std::string_view what) const { spec::fail(spec::format("{}: byte {}: {}", dialect_, offset_, what)); }

 private:
  template <class F, class Bits>
  static F from_bits(Bits bits) {
    static_assert(sizeof(F) == sizeof(Bits));
    F value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  std::string_view dialect_;
  std::span<const std::byte> bytes_;
  std::uint64_t offset_ = 0;
  ByteOrder order_ = ByteOrder::little;
};

}  // namespace phasor::spec
