// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request of the playground: the text up to a zero byte, what is behind it attached. There is always an answer, and it is
// JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "web/core/core.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const void* zero = size == 0 ? nullptr : std::memchr(data, 0, size);
  const std::size_t length = zero == nullptr ? size : static_cast<std::size_t>(static_cast<const std::uint8_t*>(zero) - data);
  const std::size_t rest = length == size ? size : length + 1;
  const phasor::web::Response response =
      phasor::web::answer({reinterpret_cast<const char*>(data), length}, std::as_bytes(std::span(data + rest, size - rest)));
  const auto json = nlohmann::json::parse(response.text, nullptr, false);
  if (json.is_discarded() || json.contains("error") == response.ok || json.contains("result") != response.ok) std::abort();
  if (!response.ok && json["error"]["message"].get<std::string>().empty()) std::abort();
  return 0;
}
