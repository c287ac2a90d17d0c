// SPDX-License-Identifier: Apache-2.0
// A minimal decoder in C++: a small Llama, keys and values in pages, everything about positions by Phasor. engine.c is the same in C.
//   engine FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...
// prints the likeliest tokens. Where CONTEXT tokens are in the cache, half of them behind the first KEEP are dropped and the rest moves up.
#include <cstdio>
#include <cstdlib>
#include <phasor/phasor.hpp>
#include <string>
#include <vector>

#include "model.h"

namespace {

constexpr std::int64_t kPage = 4;  // tokens of a page

void must(const phasor::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "engine: %s\n", status.message().c_str());
  std::exit(1);
}
template <class T>
T value_of(phasor::Result<T> result) {
  must(result.status());
  return *std::move(result);
}

/// The pages of one sequence, the same in every layer. A free page is taken from the end, so that pages lie anywhere.
struct Pages {
  std::vector<std::int32_t> table;  // block of each page of the sequence
  std::vector<std::int32_t> free;
  std::int64_t length = 0;  // tokens in the cache

  explicit Pages(std::int64_t blocks) {
    for (std::int64_t block = 0; block < blocks; ++block) free.push_back(static_cast<std::int32_t>(block));
  }
  void make_room(std::int64_t tokens) {
    while (static_cast<std::int64_t>(table.size()) * kPage < length + tokens) {
      table.push_back(free.back());
      free.pop_back();
    }
  }
  phasor::PageTable view() const { return {.blocks = table, .lengths = {&length, 1}, .page_size = kPage}; }
  /// Where the tokens from `first` on lie.
  std::vector<std::int64_t> slots(std::int64_t first, std::int64_t count) const {
    std::vector<std::int64_t> at(static_cast<std::size_t>(count)), slots(at.size());
    must(phasor::fill_from_offset(phasor::positions(at.data(), count), first));
    must(phasor::fill_slots(phasor::positions(slots.data(), count), {.blocks = table, .page_size = kPage},
                            phasor::positions(at.data(), count)));
    return slots;
  }
};

class Engine {
 public:
  Engine(const engine_model& model, const std::string& folder, std::int64_t context)
      : model_(model), pages_((context + kPage - 1) / kPage), blocks_(static_cast<std::int64_t>(pages_.free.size())) {
    const phasor::ModelPositions positions = value_of(phasor::read_model(folder));
    for (const phasor::LayerPositions& layer : positions.layers) {
      if (!layer.rotary) must(phasor::Status::unsupported("a layer has no rotary encoding, wanted a Llama"));
      rotaries_.push_back(value_of(phasor::Rotary::make(layer.rotary.value_or(phasor::RotarySpec{}))));
    }
    const std::size_t numbers = static_cast<std::size_t>(blocks_ * kPage * model.kv_heads * model.head_dim);
    keys_.assign(rotaries_.size(), std::vector<float>(numbers));
    values_ = keys_;
  }

  std::int64_t length() const { return pages_.length; }

  /// The likeliest token after `tokens`, which are added to the cache.
  std::int64_t step(const std::vector<std::int64_t>& tokens) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    pages_.make_room(rows);
    const std::vector<std::int64_t> slots = pages_.slots(pages_.length, rows);
    std::vector<float> x;
    for (const std::int64_t token : tokens) {
      const float* row = model_.embedding.values + token * model_.hidden;
      x.insert(x.end(), row, row + model_.hidden);
    }
    pages_.length += rows;
    for (std::size_t layer = 0; layer < rotaries_.size(); ++layer) {
      attend(layer, x, slots);
      engine_feed_forward(x.data(), rows, &model_, &model_.layer[layer]);
    }
    return engine_next_token(x.data() + (rows - 1) * model_.hidden, &model_);
  }

  /// Drops `count` tokens behind the first `keep`, both whole pages, and turns the keys behind them to their new positions.
  void shift(std::int64_t keep, std::int64_t count) {
    const auto first = pages_.table.begin() + keep / kPage;
    pages_.free.insert(pages_.free.end(), first, first + count / kPage);
    pages_.table.erase(first, first + count / kPage);
    pages_.length -= count;
    const std::vector<std::int64_t> slots = pages_.slots(keep, pages_.length - keep);
    for (std::size_t layer = 0; layer < rotaries_.size(); ++layer) {
      const phasor::Rotary& rotary = rotaries_[layer];
      const phasor::TensorView cache = phasor::view(keys_[layer].data(), {blocks_, kPage, model_.kv_heads, model_.head_dim});
      must(phasor::rerotate(cache, slots, {rotary, phasor::positions_from(keep + count)}, {rotary, phasor::positions_from(keep)}));
    }
  }

 private:
  /// x += o(attention(q, k, v)), q and k rotated, k and v left in the cache.
  void attend(std::size_t layer, std::vector<float>& x, const std::vector<std::int64_t>& slots) {
    const engine_layer& weights = model_.layer[layer];
    const auto rows = static_cast<std::int64_t>(slots.size());
    const phasor::Extents q_shape = {1, rows, model_.heads, model_.head_dim};
    const phasor::Extents kv_shape = {1, rows, model_.kv_heads, model_.head_dim};
    std::vector<float> h(x.size());
    std::vector<float> q(static_cast<std::size_t>(rows * weights.q.out)), k(static_cast<std::size_t>(rows * weights.k.out)), v(k.size()),
        out(q.size());
    engine_rms_norm(h.data(), x.data(), rows, &model_, weights.input_norm);
    engine_linear(q.data(), h.data(), rows, weights.q);
    engine_linear(k.data(), h.data(), rows, weights.k);
    engine_linear(v.data(), h.data(), rows, weights.v);

    const phasor::CacheShape shape{.blocks = blocks_, .block = kPage, .heads = model_.kv_heads, .head_dim = model_.head_dim};
    const phasor::CacheView key_cache = phasor::contiguous_cache(keys_[layer].data(), phasor::Storage::f32, shape);
    const phasor::CacheView value_cache = phasor::contiguous_cache(values_[layer].data(), phasor::Storage::f32, shape);
    const phasor::TensorView queries = phasor::view(q.data(), q_shape);
    phasor::PrepareOutputs outputs{.q = phasor::tensor_cache(queries), .k = key_cache, .v = value_cache};
    outputs.places.kind = phasor::TokenPlaces::Kind::slots;
    outputs.places.slots = phasor::integers(slots.data(), rows);
    must(phasor::prepare_attention({.q = queries, .k = phasor::view(k.data(), kv_shape), .v = phasor::view(v.data(), kv_shape)},
                                   {.rotaries = {&rotaries_[layer], 1}, .positions = phasor::positions_from(pages_.length - rows)},
                                   outputs));

    const phasor::CachedInputs inputs{.q = queries, .k = key_cache, .v = value_cache, .pages = pages_.view()};
    phasor::AttentionSpec spec;
    spec.visibility.mask = phasor::Mask::causal;
    workspace_.resize(static_cast<std::size_t>(value_of(phasor::cached_attention_workspace(inputs, spec))));
    must(phasor::cached_attention(inputs, spec, {.out = phasor::view(out.data(), q_shape)}, workspace_));
    engine_linear(h.data(), out.data(), rows, weights.o);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += h[i];
  }

  const engine_model& model_;
  Pages pages_;
  std::int64_t blocks_;
  std::vector<phasor::Rotary> rotaries_;
  std::vector<std::vector<float>> keys_, values_;  // of each layer, (blocks, page, heads, channels)
  std::vector<std::byte> workspace_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return std::fputs("usage: engine FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...\n", stderr), 2;
  char message[256];
  const engine_model* model = engine_load(argv[1], message, sizeof message);
  if (model == nullptr) return std::fprintf(stderr, "engine: %s\n", message), 1;
  const std::int64_t context = std::atoll(argv[3]) / kPage * kPage;
  const std::int64_t keep = std::atoll(argv[4]) / kPage * kPage;
  std::vector<std::int64_t> tokens;
  for (int i = 5; i < argc; ++i) tokens.push_back(std::atoll(argv[i]));
  if (static_cast<std::int64_t>(tokens.size()) > context)
    return std::fputs("engine: the tokens are more than the context has room for\n", stderr), 1;

  Engine engine(*model, argv[1], context);
  for (std::int64_t made = std::atoll(argv[2]); made > 0; --made) {
    if (engine.length() + static_cast<std::int64_t>(tokens.size()) > context) engine.shift(keep, (context - keep) / 2 / kPage * kPage);
    tokens = {engine.step(tokens)};
    std::printf("%lld%c", static_cast<long long>(tokens[0]), made > 1 ? ' ' : '\n');
  }
  engine_unload(model);
}
