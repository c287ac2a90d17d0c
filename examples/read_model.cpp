// SPDX-License-Identifier: Apache-2.0
// What the layers of a model do with positions, from its files alone. Argument: a config.json, a folder that has one, or a GGUF file.
#include <cstdio>
#include <phasor/phasor.hpp>

int main(int argc, char** argv) {
  const auto model = phasor::read_model(argc > 1 ? argv[1] : "config.json");  // a GGUF file, or a folder with a config.json, too
  if (!model.ok()) return std::puts(model.status().message().c_str()), 1;
  for (std::size_t i = 0; i < model->layers.size(); ++i) {
    const phasor::LayerPositions& layer = model->layers[i];
    if (!layer.rotary) {
      std::printf("layer %zu: no rotary encoding\n", i);
      continue;
    }
    const auto rope = phasor::Rotary::make(*layer.rotary);  // ready to apply
    if (!rope.ok()) return std::puts(rope.status().message().c_str()), 1;
    std::printf("layer %zu: base %g, amplitude %g, slowest pair %.4g radians per position\n", i, layer.rotary->base, rope->amplitude(),
                rope->frequencies().back());
  }
}
