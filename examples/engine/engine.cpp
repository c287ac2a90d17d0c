// SPDX-License-Identifier: Apache-2.0
// A minimal decoder in C++: a small Llama, keys and values in pages, everything about positions by Phasor. engine.c is the same in C.
//   engine [--device cpu|cuda] [--trace FILE] FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...
// prints the likeliest tokens. Where CONTEXT tokens are in the cache, half of them behind the first KEEP are dropped and the rest moves up.
// A trace has the numbers that each step makes, a line for each kind: those of two devices show where a difference begins.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "model.h"
#include "pages.hpp"

namespace {

using engine::Buffer;
using engine::cache;
using engine::kPage;
using engine::must;
using engine::tensor;
using engine::value_of;

/// Lines of "step layer name: numbers", the layer -1 for what is not of one.
class Trace {
 public:
  explicit Trace(const char* path) : file_(path == nullptr ? nullptr : std::fopen(path, "w"), &std::fclose) {
    if (path != nullptr && file_ == nullptr) must(phasor::Status::not_found(std::string(path) + " cannot be written"));
  }
  void begin_step() { ++step_; }
  void see(std::size_t layer, const char* name, const Buffer<float>& values) {
    if (file_ != nullptr) write(static_cast<std::int64_t>(layer), name, values.read());
  }
  void write(std::int64_t layer, const char* name, const std::vector<float>& values) {
    if (file_ == nullptr) return;
    std::fprintf(file_.get(), "%lld %lld %s:", static_cast<long long>(step_), static_cast<long long>(layer), name);
    for (const float value : values) std::fprintf(file_.get(), " %.9g", static_cast<double>(value));
    std::fputc('\n', file_.get());
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::int64_t step_ = -1;
};

class Engine {
 public:
  Engine(const engine_model& model, const std::string& folder, std::int64_t context, Trace& trace)
      : model_(model),
        device_(*model.device),
        trace_(trace),
        shape_{.blocks = (context + kPage - 1) / kPage, .block = kPage, .heads = model.kv_heads, .head_dim = model.head_dim},
        pages_(device_, shape_.blocks),
        workspace_(device_) {
    const std::int64_t numbers = shape_.blocks * kPage * shape_.heads * shape_.head_dim;
    const std::vector<float> zeros(static_cast<std::size_t>(numbers));  // a trace has the pages that nobody has written yet, too
    const phasor::ModelPositions positions = value_of(phasor::read_model(folder));
    for (const phasor::LayerPositions& layer : positions.layers) {
      if (!layer.rotary) must(phasor::Status::unsupported("a layer has no rotary encoding, wanted a Llama"));
      rotaries_.push_back(value_of(phasor::Rotary::make(layer.rotary.value_or(phasor::RotarySpec{}))));
      for (auto* const cache : {&keys_, &values_}) cache->emplace_back(device_, numbers).write(zeros.data(), zeros.size());
    }
    spec_.visibility.mask = phasor::Mask::causal;
    spec_.execution = engine::on(device_);
  }

  std::int64_t length() const { return pages_.length(); }

  /// The likeliest token after `tokens`, which are added to the cache.
  std::int64_t step(const std::vector<std::int64_t>& tokens) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    trace_.begin_step();
    pages_.grow(rows);
    const engine::Places places = pages_.places(pages_.length() - rows, rows);
    const Buffer<float> x(device_, rows * model_.hidden);
    engine_embed(x.data(), tokens.data(), rows, &model_);
    for (std::size_t layer = 0; layer < rotaries_.size(); ++layer) {
      attend(layer, x, places);
      engine_feed_forward(x.data(), rows, &model_, &model_.layer[layer]);
      trace_.see(layer, "x", x);
    }
    std::vector<float> logits(static_cast<std::size_t>(model_.vocabulary));
    engine_logits(logits.data(), x.data() + (rows - 1) * model_.hidden, &model_);
    trace_.write(-1, "logits", logits);
    return engine_likeliest(logits.data(), &model_);
  }

  /// Drops `count` tokens behind the first `keep`, both whole pages, and turns the keys behind them to their new positions.
  void shift(std::int64_t keep, std::int64_t count) {
    pages_.drop(keep, count);
    const engine::Places to = pages_.places(keep, pages_.length() - keep);
    const phasor::Slots slots({to.slots.data(), static_cast<std::size_t>(to.slots.size())}, engine::where(device_));
    for (std::size_t layer = 0; layer < rotaries_.size(); ++layer) {
      const phasor::Rotary& rotary = rotaries_[layer];
      const phasor::TensorView keys = tensor(keys_[layer], {shape_.blocks, kPage, shape_.heads, shape_.head_dim});
      must(phasor::rerotate(keys, slots, {rotary, phasor::positions_from(keep + count)}, {rotary, engine::positions(to.positions)},
                            {.execution = engine::on(device_)}));
      see_cache(layer);
    }
  }

 private:
  void see_cache(std::size_t layer) {
    trace_.see(layer, "keys", keys_[layer]);
    trace_.see(layer, "values", values_[layer]);
  }

  /// x += o(attention(q, k, v)), q and k rotated, k and v left in the cache.
  void attend(std::size_t layer, const Buffer<float>& x, const engine::Places& places) {
    const engine_layer& weights = model_.layer[layer];
    const std::int64_t rows = places.slots.size();
    const Buffer<float> h(device_, x.size()), q(device_, rows * weights.q.out), k(device_, rows * weights.k.out),
        v(device_, rows * weights.v.out), out(device_, q.size());
    device_.norm(h.data(), x.data(), rows, weights.input_norm);
    device_.linear(q.data(), h.data(), rows, weights.q);
    device_.linear(k.data(), h.data(), rows, weights.k);
    device_.linear(v.data(), h.data(), rows, weights.v);

    const phasor::Extents kv_shape = {1, rows, model_.kv_heads, model_.head_dim};
    const phasor::TensorView queries = tensor(q, {1, rows, model_.heads, model_.head_dim});
    const phasor::CachedInputs inputs{
        .q = queries, .k = cache(keys_[layer], shape_), .v = cache(values_[layer], shape_), .pages = pages_.view()};
    phasor::PrepareOutputs outputs{.q = phasor::tensor_cache(queries), .k = inputs.k, .v = inputs.v};
    outputs.places.kind = phasor::TokenPlaces::Kind::slots;
    outputs.places.slots = engine::integers(places.slots);
    must(phasor::prepare_attention({.q = queries, .k = tensor(k, kv_shape), .v = tensor(v, kv_shape)},
                                   {.rotaries = {&rotaries_[layer], 1}, .positions = engine::positions(places.positions)}, outputs, {},
                                   engine::on(device_)));
    trace_.see(layer, "q", q);
    if (rows > 1) see_cache(layer);

    const std::int64_t bytes = value_of(phasor::cached_attention_workspace(inputs, spec_));
    if (bytes > workspace_.size()) workspace_ = Buffer<std::byte>(device_, bytes);
    must(phasor::cached_attention(inputs, spec_, {.out = tensor(out, queries.shape)},
                                  {workspace_.data(), static_cast<std::size_t>(workspace_.size())}));
    trace_.see(layer, "attention", out);
    device_.linear(h.data(), out.data(), rows, weights.o);
    device_.add(x.data(), h.data(), x.size());
  }

  const engine_model& model_;
  const engine_device& device_;
  Trace& trace_;
  phasor::CacheShape shape_;
  engine::Pages pages_;
  std::vector<phasor::Rotary> rotaries_;
  std::vector<Buffer<float>> keys_, values_;  // of each layer, (blocks, page, heads, channels)
  phasor::AttentionSpec spec_;
  Buffer<std::byte> workspace_;
};

/// What comes before FOLDER; moves `argv` to what comes last of it.
struct Options {
  const char* device = "cpu";
  const char* trace = nullptr;

  Options(int& argc, char**& argv) {
    for (; argc > 2 && std::string_view(argv[1]).starts_with("--"); argc -= 2, argv += 2) {
      const std::string_view name = argv[1];
      if (name == "--device")
        device = argv[2];
      else if (name == "--trace")
        trace = argv[2];
      else
        must(phasor::Status::invalid("the option is " + std::string(name) + ", wanted --device or --trace"));
    }
  }
};

int stop(const char* why) { return std::fprintf(stderr, "engine: %s\n", why), 1; }

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  if (argc < 6) return std::fputs("usage: engine [--device cpu|cuda] [--trace FILE] FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...\n", stderr), 2;
  char message[256];
  const engine_device* device = engine_device_of(options.device, message, sizeof message);
  if (device == nullptr) return stop(message);
  const engine_model* model = engine_load(argv[1], device, message, sizeof message);
  if (model == nullptr) return stop(message);
  const std::int64_t context = std::atoll(argv[3]) / kPage * kPage;
  const std::int64_t keep = std::atoll(argv[4]) / kPage * kPage;
  std::vector<std::int64_t> tokens;
  for (int i = 5; i < argc; ++i) tokens.push_back(std::atoll(argv[i]));
  if (static_cast<std::int64_t>(tokens.size()) > context) return stop("the tokens are more than the context has room for");
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= model->vocabulary) return stop("a token is not of the vocabulary");
  }

  Trace trace(options.trace);
  {
    Engine engine(*model, argv[1], context, trace);
    for (std::int64_t made = std::atoll(argv[2]); made > 0; --made) {
      if (engine.length() + static_cast<std::int64_t>(tokens.size()) > context) engine.shift(keep, (context - keep) / 2 / kPage * kPage);
      tokens = {engine.step(tokens)};
      std::printf("%lld%c", static_cast<long long>(tokens[0]), made > 1 ? ' ' : '\n');
    }
  }
  engine_unload(model);
}
