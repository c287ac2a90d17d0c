// SPDX-License-Identifier: Apache-2.0
// Checks of lists: where tokens go, which spec turns them. What they hold is looked at here on a CPU alone.
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

/// Inside of the cache, and no place twice. Places that rise are each once; others are sorted.
Status check_values(const PlaceSource& places, std::int64_t batch, std::int64_t tokens) {
  std::int64_t last = -1;
  bool rising = true;
  for (std::int64_t i = 0; i < batch * tokens; ++i) {
    const PlaceFault fault = fault_of(places, i / tokens, i % tokens, tokens);
    if (fault.kind != PlaceFault::Kind::none) return refused(fault, places);
    const TokenPlace place = place_of(places, i / tokens, i % tokens, tokens);
    if (place.block < 0) continue;
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

Status check_places(const PrepareCall& call, const PrepareJob& job) {
  const TokenPlaces& places = call.outputs.places;
  if (places.kind > TokenPlaces::Kind::pages) return error(kPrepare, "places have an unknown kind ({})", static_cast<int>(places.kind));
  if (places.on_gpu > TokenPlaces::OnGpu::checked)
    return error(kPrepare, "places have an unknown on_gpu ({}), wanted trusted or checked", static_cast<int>(places.on_gpu));
  const std::pair<const char*, const IntegerList&> lists[] = {{"starts", places.starts},     {"slots", places.slots},
                                                              {"indptr", places.indptr},     {"indices", places.indices},
                                                              {"requests", places.requests}, {"places", places.places}};
  for (const auto& [name, list] : lists) {
    if (Status s = check_list(kPrepare, name, list, job.device); !s) return s;
  }
  if (Status s = check_sizes(call, job); !s) return s;
  if (job.device.kind != DeviceKind::cpu) return {};
  if (Status s = check_spec_of(kPrepare, job.specs); !s) return s;
  const bool placed = call.outputs.k.count > 0 || call.outputs.v.count > 0;
  return placed ? check_values(job.places, job.turn.batch, job.turn.tokens) : Status();
}

Status refused(const PlaceFault& fault, const PlaceSource& places) {
  const std::int64_t last = fault.limit - 1;
  switch (fault.kind) {
    case PlaceFault::Kind::none:
      return {};
    case PlaceFault::Kind::request:
      return error(kPrepare, "requests[{}] is {}, wanted 0 to {}", fault.index, fault.is, last);
    case PlaceFault::Kind::place:
      return error(kPrepare, "places[{}] is {}, beyond the {} pages of request {}", fault.index, fault.is, fault.limit, fault.request);
    case PlaceFault::Kind::page:
      return error(kPrepare, "page {} of request {} is {}, wanted 0 to {}", fault.of, fault.request, fault.is, last);
    case PlaceFault::Kind::token:
      break;
  }
  return error(kPrepare, "token {} goes to token {} of block {}, wanted one of {} blocks of {}", fault.index, fault.is, fault.of,
               fault.limit, places.block);
}

}  // namespace phasor::job
