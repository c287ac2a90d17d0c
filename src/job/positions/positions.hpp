// SPDX-License-Identifier: Apache-2.0
// What every builder of positions needs: checked lists, checked views, and a sink that first looks whether all values fit, then writes.
#pragma once

#include <cstdint>
#include <cstring>

#include "job/check.hpp"
#include "job/positions/build.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/positions.hpp"

namespace phasor::job {

/// Memory, shape and strides of what is to be written; no element twice.
Status check_written_positions(const char* where, const PositionsView& out);
/// The same of what a builder writes: on the CPU.
Status check_output(const char* where, const PositionsView& out);
/// Extents that a builder wants. batch 0: any.
Status check_extents(const char* where, const PositionsView& out, std::int64_t batch, std::int64_t tokens);
/// A list apart from the output, in memory where it has elements.
Status check_list(const char* where, const char* name, const Integers& list, const PositionsView& out);
/// The same, and of `wanted` elements.
Status check_list_of(const char* where, const char* name, const Integers& list, const PositionsView& out, std::int64_t wanted);
/// Positions that are read to make others: one axis, the batch rows and tokens of out, apart from it or exactly it.
Status check_source(const char* where, const Positions& source, const PositionsView& out);
/// Of `ragged`, for `tokens` tokens; what the lists hold where the CPU can read it.
Status check_ragged(const char* where, const Ragged& ragged, const PositionsView& out, std::int64_t tokens);

/// Position of token t of batch row b, of positions with memory or an offset, which are not f64.
inline std::int64_t integer_at(const Positions& p, std::int64_t b, std::int64_t t) {
  if (p.data == nullptr) return static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(t));
  const std::int64_t i = (p.shape[1] == 1 ? 0 : b * p.strides[1]) + t * p.strides[2];
  return p.type == PositionType::i32 ? static_cast<const std::int32_t*>(p.data)[i] : static_cast<const std::int64_t*>(p.data)[i];
}

/// Takes every value twice: in the first walk it looks whether each fits the type, in the second it writes.
class PositionSink {
 public:
  explicit PositionSink(const PositionsView& out) : out_(out) {}

  /// base + n on every axis.
  void put(std::int64_t b, std::int64_t t, std::int64_t base, std::int64_t n = 0) {
    for (std::int64_t axis = 0; axis < out_.shape[0]; ++axis) put_axis({axis, b, t}, base, n);
  }

  struct Place {
    std::int64_t axis;
    std::int64_t b;
    std::int64_t t;
  };
  void put_axis(const Place& place, std::int64_t base, std::int64_t n = 0);
  /// A value that may be a fraction.
  void put_fraction(const Place& place, double value);

  /// Between the walks: whether all that was put fits. What is put from now on is written.
  Status begin_writing(const char* where);

 private:
  std::int64_t index(const Place& p) const { return p.axis * out_.strides[0] + p.b * out_.strides[1] + p.t * out_.strides[2]; }
  void write(const Place& place, std::int64_t value) const;

  /// The first value that does not fit: base + n, or a fraction.
  struct Refused {
    bool any = false;
    Place place = {};
    std::int64_t base = 0;
    std::int64_t n = 0;
    double fraction = 0;
  };

  PositionsView out_;
  bool writing_ = false;
  Refused refused_;
};

/// The way of every builder. `walk` puts every value into the sink it is given; it may fail, the same way each time.
template <class Walk>
Status fill(const char* where, const PositionsView& out, const Walk& walk) {
  if (out.shape[1] == 0 || out.shape[2] == 0) return {};  // nothing to write, and the other extent may be anything
  PositionSink sink(out);
  if (Status s = walk(sink); !s) return s;
  if (Status s = sink.begin_writing(where); !s) return s;
  return walk(sink);
}

}  // namespace phasor::job
