// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: read, made into rotations, and exported again where they mean something.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "../tests/valid_utf8.hpp"
#include "phasor/model.hpp"
#include "spec/gguf/gguf.hpp"

namespace {

/// Plans cost time that fuzzing has not.
bool is_small(const phasor::ModelPositions& model) {
  return model.layers.size() <= 4 && std::all_of(model.layers.begin(), model.layers.end(), [](const phasor::LayerPositions& layer) {
           return !layer.rotary || layer.rotary->rotary_width <= 32;
         });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const phasor::Result<phasor::ModelPositions> model = phasor::parse_gguf(bytes);
  // With only half of it in memory the answer is the same, or that more is needed.
  const auto fetch = [&](std::uint64_t offset, std::span<std::byte> to) {
    if (offset > size || to.size() > size - offset) return false;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = bytes[static_cast<std::size_t>(offset) + i];
    return true;
  };
  bool needs_more = false;
  const auto half = phasor::spec::parse_gguf_bytes({.head = bytes.first(size / 2), .size = size, .fetch = fetch}, {}, &needs_more);
  if (!needs_more && size > 1 && half.ok() != model.ok()) std::abort();
  if (!model) {
    if (model.status().message().empty() || !phasor::test::is_message(model.status().message())) std::abort();
    return 0;
  }
  for (const std::string& warning : model->warnings) {
    if (!phasor::test::is_message(warning)) std::abort();
  }
  if (is_small(*model)) {
    if (model->layers[0].rotary) static_cast<void>(phasor::Rotary::make(*model->layers[0].rotary));
    static_cast<void>(phasor::to_gguf_keys(*model, model->model_type));
  }
  return 0;
}
