// SPDX-License-Identifier: Apache-2.0
// Checks of lists: where tokens go, which spec turns them. What they hold is looked at on a CPU alone.
#include <algorithm>
#include <vector>

#include "job/prepare/check.hpp"
#include "job/prepare/places.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::job {
namespace {

/// A list that must have so many entries, or up to so many.
struct Wanted {
  const char* name;
  const IntegerList& list;
  std::int64_t size;
  bool shorter = false;
};

Status check_size(const Wanted& wanted) {
  const std::int64_t size = wanted.list.size;
  if (size == wanted.size || (wanted.shorter && size < wanted.size)) return {};
  return error(kPrepare, "{} has {} entries, wanted {}{}", wanted.name, size, wanted.shorter ? "at most " : "", wanted.size);
}

/// What place_of may read of the page table, looked at entry by entry.
Status check_pages(const PlaceSource& places, std::int64_t tokens, std::int64_t batch, std::int64_t blocks) {
  const std::int64_t requests =
      places.indptr.data == nullptr ? places.indices.size / std::max<std::int64_t>(places.pages_per_request, 1) : places.indptr.size - 1;
  for (std::int64_t i = 0; i < std::min(places.places.size, batch * tokens); ++i) {
    const std::int64_t place = integer_at(places.places, i);
    if (place < 0) continue;
    const std::int64_t request = places.requests.data == nullptr ? i / tokens : integer_at(places.requests, i);
    if (request < 0 || request >= requests) {
      return error(kPrepare, "requests[{}] is {}, wanted 0 to {}", i, request, requests - 1);
    }
    const bool packed = places.indptr.data != nullptr;
    const std::int64_t first = packed ? integer_at(places.indptr, request) : request * places.pages_per_request;
    const std::int64_t end = packed ? integer_at(places.indptr, request + 1) : first + places.pages_per_request;
    if (first < 0 || end > places.indices.size || place / places.block >= end - first) {
      return error(kPrepare, "places[{}] is {}, beyond the {} pages of request {}", i, place, end - first, request);
    }
    const std::int64_t page = integer_at(places.indices, first + place / places.block);
    if (page < 0 || page >= blocks)
      return error(kPrepare, "page {} of request {} is {}, wanted 0 to {}", place / places.block, request, page, blocks - 1);
  }
  return {};
}

/// Inside of the cache, and no place twice. Places that rise are each once; others are sorted.
Status check_values(const PlaceSource& places, std::int64_t batch, std::int64_t tokens, std::int64_t blocks) {
  std::int64_t last = -1;
  bool rising = true;
  for (std::int64_t i = 0; i < batch * tokens; ++i) {
    const TokenPlace place = place_of(places, i / tokens, i % tokens, tokens);
    if (place.block < 0) continue;
    if (place.block >= blocks || place.token < 0 || place.token >= places.block) {
      return error(kPrepare, "token {} goes to token {} of block {}, wanted one of {} blocks of {}", i, place.token, place.block, blocks,
                   places.block);
    }
    const std::int64_t slot = place.block * places.block + place.token;
    rising &= slot > last;
    last = slot;
  }
  if (rising) return {};
  return spec::without_exceptions([&]() -> Status {
    std::vector<std::int64_t> slots;
    for (std::int64_t i = 0; i < batch * tokens; ++i) {
      const TokenPlace place = place_of(places, i / tokens, i % tokens, tokens);
      if (place.block >= 0) slots.push_back(place.block * places.block + place.token);
    }
    std::sort(slots.begin(), slots.end());
    const auto twice = std::adjacent_find(slots.begin(), slots.end());
    if (twice == slots.end()) return {};
    return error(kPrepare, "slot {} is given to two tokens, wanted each at most once", *twice);
  });
}

Status check_spec_of(const PrepareJob& job) {
  for (std::int64_t i = 0; i < job.spec_of.size; ++i) {
    const std::int64_t spec = integer_at(job.spec_of, i);
    if (spec < 0 || spec >= job.row_count) return error(kPrepare, "spec_of[{}] is {}, wanted 0 to {}", i, spec, job.row_count - 1);
  }
  return {};
}

Status check_sizes(const PrepareCall& call, const PrepareJob& job) {
  const TokenPlaces& places = call.outputs.places;
  const std::int64_t all = job.turn.batch * job.turn.tokens;
  if (places.kind == TokenPlaces::Kind::slots) return check_size({"slots", places.slots, all, true});
  if (places.kind == TokenPlaces::Kind::in_order) {
    return places.starts.data == nullptr ? Status() : check_size({"starts", places.starts, job.turn.batch});
  }
  if (places.indptr.data == nullptr && places.pages_per_request < 1) {
    return error(kPrepare, "pages have no indptr and {} pages per request, wanted one of them", places.pages_per_request);
  }
  if (places.indptr.data != nullptr && places.indptr.size < 1) return error(kPrepare, "indptr has 0 entries, wanted 1 at least");
  if (Status s = check_size({"places", places.places, all, true}); !s) return s;
  return places.requests.data == nullptr ? Status() : check_size({"requests", places.requests, places.places.size});
}

}  // namespace

Status check_list(const char* name, const IntegerList& list, Device device) {
  if (list.size < 0) return error(kPrepare, "{} has {} entries, wanted 0 or more", name, list.size);
  if (list.data == nullptr)
    return list.size == 0 ? Status() : error(kPrepare, "{} is null and has {} entries, wanted memory", name, list.size);
  if (list.type != PositionType::i32 && list.type != PositionType::i64) {
    return error(kPrepare, "{} has an unknown type ({}), wanted int32 or int64", name, static_cast<int>(list.type));
  }
  const std::uintptr_t size = list.type == PositionType::i32 ? 4 : 8;
  if (reinterpret_cast<std::uintptr_t>(list.data) % size != 0)
    return error(kPrepare, "{} is not aligned to its elements of {} bytes", name, size);
  return check_device(kPrepare, name, list.device, device);
}

Status check_places(const PrepareCall& call, const PrepareJob& job) {
  const TokenPlaces& places = call.outputs.places;
  if (places.kind > TokenPlaces::Kind::pages) return error(kPrepare, "places have an unknown kind ({})", static_cast<int>(places.kind));
  const std::pair<const char*, const IntegerList&> lists[] = {{"starts", places.starts},     {"slots", places.slots},
                                                              {"indptr", places.indptr},     {"indices", places.indices},
                                                              {"requests", places.requests}, {"places", places.places}};
  for (const auto& [name, list] : lists) {
    if (Status s = check_list(name, list, job.device); !s) return s;
  }
  if (Status s = check_sizes(call, job); !s) return s;
  if (job.device.kind != DeviceKind::cpu) return {};
  if (Status s = check_spec_of(job); !s) return s;
  for (const CacheParts* out : {&call.outputs.k, &call.outputs.v}) {
    for (int p = 0; p < out->count; ++p) {
      const std::int64_t blocks = out->parts[static_cast<std::size_t>(p)].shape[static_cast<std::size_t>(CacheAxis::block)];
      if (places.kind == TokenPlaces::Kind::pages) {
        if (Status s = check_pages(job.places, job.turn.tokens, job.turn.batch, blocks); !s) return s;
      }
      if (Status s = check_values(job.places, job.turn.batch, job.turn.tokens, blocks); !s) return s;
    }
  }
  return {};
}

}  // namespace phasor::job
