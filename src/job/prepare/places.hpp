// SPDX-License-Identifier: Apache-2.0
// Where a token goes: read from the caller's lists, on host and device.
#pragma once

#include "job/prepare/job.hpp"
#include "math/portable.hpp"

namespace phasor::job {

/// A block of a cache and a token in it; block -1: the token is skipped.
struct TokenPlace {
  std::int64_t block;
  std::int64_t token;
};

PHASOR_HD inline std::int64_t integer_at(const IntegerSource& list, std::int64_t index) {
  return list.narrow ? static_cast<const std::int32_t*>(list.data)[index] : static_cast<const std::int64_t*>(list.data)[index];
}

/// The block of a place (not negative) among those of blocks one after the other, and the token in it.
PHASOR_HD inline TokenPlace in_block(const PlaceSource& places, std::int64_t place) {
  if (places.block_shift >= 0) return {place >> places.block_shift, place & (places.block - 1)};  // a division takes a GPU a hundred steps
  return {place / places.block, place % places.block};
}

/// Token t of batch row b, of T.
PHASOR_HD inline TokenPlace place_of(const PlaceSource& places, std::int64_t b, std::int64_t t, std::int64_t tokens) {
  const std::int64_t i = b * tokens + t;
  if (places.kind == TokenPlaces::Kind::slots) {
    const std::int64_t slot = i < places.slots.size ? integer_at(places.slots, i) : -1;
    if (slot < 0) return {-1, 0};
    return in_block(places, slot);
  }
  if (places.kind == TokenPlaces::Kind::pages) {
    const std::int64_t place = i < places.places.size ? integer_at(places.places, i) : -1;
    if (place < 0) return {-1, 0};
    const std::int64_t request = places.requests.data == nullptr ? b : integer_at(places.requests, i);
    const std::int64_t first = places.indptr.data == nullptr ? request * places.pages_per_request : integer_at(places.indptr, request);
    const TokenPlace at = in_block(places, place);
    return {integer_at(places.indices, first + at.block), at.token};
  }
  return {b, (places.starts.data == nullptr ? 0 : integer_at(places.starts, b)) + t};
}

}  // namespace phasor::job
