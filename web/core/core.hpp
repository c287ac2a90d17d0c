// SPDX-License-Identifier: Apache-2.0
// The core of the playground: one request in, one response out. Stateless.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "web/core/blocks.hpp"

namespace phasor::web {

struct Response {
  bool ok = true;
  std::string text = {};  // JSON: {"result": ...} or {"error": ...}
  Blocks blocks = {};     // of the result
};

/// Whatever the request is, there is an answer; nothing is thrown.
Response answer(std::string_view request, std::span<const std::byte> attached);

}  // namespace phasor::web
