// SPDX-License-Identifier: Apache-2.0
// Lists of the C API: one item of a list by its index, spans of the caller's numbers, and arrays of structs that a call fills.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"

namespace phasor::c {

/// "differences_get: index is 7, and there are 3, wanted one of them".
template <class T>
const T& item_of(const char* where, const char* name, const std::vector<T>& list, std::size_t index) {
  if (index >= list.size()) {
    fail(std::string(where) + ": " + name + " is " + std::to_string(index) + ", and there are " + std::to_string(list.size()) +
         ", wanted one of them");
  }
  return list[index];
}

/// (pointer, count) of the caller's. A count of more bytes than memory can have is an error of the caller, not a lack of memory.
template <class T>
std::span<T> span_of(const char* where, const char* name, T* data, std::size_t count) {
  if (data == nullptr && count > 0) {
    fail(std::string(where) + ": " + name + " is null and has " + std::to_string(count) + " elements, wanted their memory");
  }
  constexpr std::size_t kMost = static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T);
  if (count > kMost) {
    fail(std::string(where) + ": " + name + " has " + std::to_string(count) + " elements, wanted at most " + std::to_string(kMost));
  }
  return {data, count};
}

/// Fills the caller's array, whose items may be of an older or a newer version: as much of each as both know, the rest zero.
template <class List, class Item>
void give_list(const char* where, const std::vector<Item>& items, List* to) {
  need(where, "the list", to)->count = items.size();
  const std::size_t room = to->data == nullptr ? 0 : to->capacity;
  if (room < items.size()) {
    fail(std::string(where) + ": the list has room for " + std::to_string(room) + " items, wanted " + std::to_string(items.size()),
         PHASOR_TOO_SMALL);
  }
  if (items.empty()) return;
  check_size(where, "an item", to->item_size, sizeof(Item));
  auto* bytes = reinterpret_cast<char*>(to->data);
  for (const Item& item : items) {
    std::memcpy(bytes, &item, std::min(to->item_size, sizeof(Item)));
    if (to->item_size > sizeof(Item)) std::memset(bytes + sizeof(Item), 0, to->item_size - sizeof(Item));
    bytes += to->item_size;
  }
}

}  // namespace phasor::c
