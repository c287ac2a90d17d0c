// SPDX-License-Identifier: Apache-2.0
// Caches and places of tokens between C and C++.
#pragma once

#include "phasor/c/cache.h"
#include "phasor/cache.hpp"

namespace phasor::c {

/// Kinds of storage, numbered from 0 on.
inline constexpr int kStorages = PHASOR_STORAGE_I8 + 1;

/// Needed.
CacheView cache_view_of(const char* where, const char* name, const phasor_cache_view* view);
phasor_cache_view c_cache_view_of(const CacheView& view);

CacheParts cache_parts_of(const char* where, const char* name, const phasor_cache_parts& parts);
/// Null: in order.
TokenPlaces token_places_of(const char* where, const phasor_token_places* places);

}  // namespace phasor::c
