// SPDX-License-Identifier: Apache-2.0
// Fuzzing parse_hf_config: whatever the text, it answers; what it reads can be planned or refused, and what is written back reads again.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "../tests/valid_utf8.hpp"
#include "phasor/model.hpp"
#include "phasor/rotary.hpp"

namespace {

[[noreturn]] void found(const char* what) {
  std::fprintf(stderr, "hf_config: %s\n", what);
  std::abort();
}

/// Plans are exact and slow: a layer like the one before it is not made again.
void plan(const std::vector<phasor::LayerPositions>& layers) {
  const phasor::RotarySpec* before = nullptr;
  for (const phasor::LayerPositions& layer : layers) {
    if (!layer.rotary || layer.rotary->head_dim > 512) continue;
    const bool alike = before != nullptr && before->base == layer.rotary->base && before->head_dim == layer.rotary->head_dim;
    if (!alike) {
      const auto rotary = phasor::Rotary::make(*layer.rotary);
      if (!rotary && rotary.status().message().empty()) found("a plan failed without a message");
    }
    before = &*layer.rotary;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{100000}}) {
    const auto model = phasor::parse_hf_config(text, {.length = length});
    if (!model) {
      if (model.status().message().empty()) found("an error without a message");
      if (!phasor::test::is_message(model.status().message())) found("a message that is no UTF-8");
      return 0;
    }
    if (model->layers.empty()) found("a model without layers");
    for (const std::string& warning : model->warnings) {
      if (!phasor::test::is_message(warning)) found("a warning that is no UTF-8");
    }
    plan(model->layers);
    for (const phasor::ModelTower& tower : model->towers) plan(tower.layers);
    const auto written = phasor::to_hf_config(*model);
    if (!written) continue;  // the dialect cannot say everything that it can be read from, such as an attn_factor of another type
    const auto back = phasor::parse_hf_config(*written);
    if (!back || back->layers.size() != model->layers.size()) found("what was written does not read back");
  }
  return 0;
}
