// SPDX-License-Identifier: Apache-2.0
// Where a token goes: read from the caller's lists, on host and device.
#pragma once

#include "job/prepare/job.hpp"
#include "math/portable.hpp"
#include "phasor/result.hpp"

namespace phasor::job {

/// A block of a cache and a token in it; block -1: the token is skipped.
struct TokenPlace {
  std::int64_t block;
  std::int64_t token;
};

/// The block of a place (not negative) among those of blocks one after the other, and the token in it. `shifts`: blocks are known to have a
/// power of two of tokens.
template <bool shifts = false>
PHASOR_HD inline TokenPlace in_block(const PlaceSource& places, std::int64_t place) {
  if (shifts || places.block_shift >= 0)
    return {place >> places.block_shift, place & (places.block - 1)};  // a division takes a GPU a hundred steps
  return {place / places.block, place % places.block};
}

/// Token t of batch row b, of T.
template <bool shifts = false>
PHASOR_HD inline TokenPlace place_of(const PlaceSource& places, std::int64_t b, std::int64_t t, std::int64_t tokens) {
  const std::int64_t i = b * tokens + t;
  if (places.kind == TokenPlaces::Kind::slots) {
    const std::int64_t slot = i < places.slots.size ? integer_at(places.slots, i) : -1;
    if (slot < 0) return {-1, 0};
    return in_block<shifts>(places, slot);
  }
  if (places.kind == TokenPlaces::Kind::pages) {
    const std::int64_t place = i < places.places.size ? integer_at(places.places, i) : -1;
    if (place < 0) return {-1, 0};
    const std::int64_t request = places.requests.data == nullptr ? b : integer_at(places.requests, i);
    const std::int64_t first = places.indptr.data == nullptr ? request * places.pages_per_request : integer_at(places.indptr, request);
    const TokenPlace at = in_block<shifts>(places, place);
    return {integer_at(places.indices, first + at.block), at.token};
  }
  const std::int64_t start = places.starts.data == nullptr ? 0 : integer_at(places.starts, b);
  return {b, static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(t))};  // it may be any number
}

/// Why a token has no place in the caches.
struct PlaceFault {
  enum class Kind : std::uint8_t { none, request, place, page, token };
  Kind kind = Kind::none;
  std::int64_t index = 0;  // of the token in the call
  std::int64_t is = 0;     // what is wrong: a request, a place, a page, a token of a block
  std::int64_t of = 0;     // whose: of a page its number among its request's, of a token its block
  std::int64_t request = 0;
  std::int64_t limit = 0;  // how many there are
};

/// What place_of may read of the page table, for token i of batch row b.
PHASOR_HD inline PlaceFault fault_of_pages(const PlaceSource& places, std::int64_t b, std::int64_t i) {
  const std::int64_t place = i < places.places.size ? integer_at(places.places, i) : -1;
  if (place < 0) return {};
  const bool packed = places.indptr.data != nullptr;
  const std::int64_t requests = packed ? places.indptr.size - 1 : places.indices.size / places.pages_per_request;
  const std::int64_t request = places.requests.data == nullptr ? b : integer_at(places.requests, i);
  if (request < 0 || request >= requests) return {PlaceFault::Kind::request, i, request, 0, 0, requests};
  const std::int64_t first = packed ? integer_at(places.indptr, request) : request * places.pages_per_request;
  const std::int64_t end = packed ? integer_at(places.indptr, request + 1) : first + places.pages_per_request;
  const std::int64_t pages = first < 0 || end < first || end > places.indices.size ? 0 : end - first;
  const std::int64_t number = place / places.block;
  if (number >= pages) return {PlaceFault::Kind::place, i, place, 0, request, pages};
  const std::int64_t page = integer_at(places.indices, first + number);
  if (page < 0 || page >= places.blocks) return {PlaceFault::Kind::page, i, page, number, request, places.blocks};
  return {};
}

/// What is wrong with the place of token t of batch row b, of T: outside of the caches, or read from outside of its lists.
PHASOR_HD inline PlaceFault fault_of(const PlaceSource& places, std::int64_t b, std::int64_t t, std::int64_t tokens) {
  const std::int64_t i = b * tokens + t;
  if (places.kind == TokenPlaces::Kind::pages) {
    const PlaceFault fault = fault_of_pages(places, b, i);
    if (fault.kind != PlaceFault::Kind::none) return fault;
  }
  const TokenPlace place = place_of(places, b, t, tokens);
  if (place.block < 0 || (place.block < places.blocks && place.token >= 0 && place.token < places.block)) return {};
  return {PlaceFault::Kind::token, i, place.token, place.block, 0, places.blocks};
}

/// A fault in words.
Status refused(const PlaceFault& fault, const PlaceSource& places);

}  // namespace phasor::job
