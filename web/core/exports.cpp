// SPDX-License-Identifier: Apache-2.0
// The C functions that the page's loader calls. The last response is kept until the next call.
#include "web/core/exports.hpp"

#include <cstdlib>
#include <type_traits>

#include "web/core/core.hpp"

namespace {

phasor::web::Response& last() {
  static phasor::web::Response response;
  return response;
}

template <class Use>
auto with_block(std::uint32_t i, const Use& use) -> std::invoke_result_t<Use, const std::vector<double>&> {
  const auto& all = last().blocks.all();
  if (i >= all.size()) return {};
  return std::visit(use, all[i]);
}

}  // namespace

extern "C" {

void* phasor_web_allocate(std::uint32_t bytes) { return std::malloc(bytes > 0 ? bytes : 1); }
void phasor_web_release(void* memory) { std::free(memory); }

std::int32_t phasor_web_call(const char* request, std::uint32_t request_bytes, const std::uint8_t* attached, std::uint32_t attached_bytes) {
  last() = {};  // its memory is free for the next one
  last() = phasor::web::answer({request, request_bytes}, {reinterpret_cast<const std::byte*>(attached), attached_bytes});
  return last().ok ? 0 : 1;
}

const char* phasor_web_response() { return last().text.data(); }
std::uint32_t phasor_web_response_bytes() { return static_cast<std::uint32_t>(last().text.size()); }
std::uint32_t phasor_web_blocks() { return static_cast<std::uint32_t>(last().blocks.all().size()); }

const void* phasor_web_block(std::uint32_t i) {
  return with_block(i, [](const auto& values) -> const void* { return values.data(); });
}
std::uint32_t phasor_web_block_bytes(std::uint32_t i) {
  return with_block(i, [](const auto& values) { return static_cast<std::uint32_t>(values.size() * sizeof(values[0])); });
}

}  // extern "C"
