// SPDX-License-Identifier: Apache-2.0
// Models in C: what C++ reads, layer by layer, and every struct both ways.
#include "analysis/models.hpp"
#include "c/owned.hpp"
#include "golden_file.hpp"
#include "handles.hpp"
#include "phasor/phasor.hpp"
#include "spec/gguf/gguf_bytes.hpp"
#include "spec/hf/hf_golden.hpp"
#include "spec_bits.hpp"

namespace phasor::test {
namespace {

// ---- Every field of a model as bits and texts ----

void add_all(Bits& bits, const auto&... values) { (bits.add(values), ...); }

void add(Bits& bits, const ModelBias& s) { add_all(bits, s.kind, s.heads, s.buckets, s.max_distance, s.max_alibi, s.bidirectional); }
void add(Bits& bits, const ModelAdditive& s) { add_all(bits, s.kind, s.length, s.width, s.first_position); }
void add(Bits& bits, const QueryTemperature& s) { add_all(bits, s.kind, s.scale, s.length, s.shift); }
void add(Bits& bits, const ModelDualChunk& s) { add_all(bits, s.chunk_size, s.local_size); }
template <class T>
void add(Bits& bits, const std::optional<T>& s) {
  bits.add(s.has_value());
  if (s) add(bits, *s);
}

struct Contents {
  std::vector<std::string> texts = {};
  std::vector<std::uint64_t> words = {};
  bool operator==(const Contents&) const = default;
};

void add(Contents& to, const std::vector<LayerPositions>& layers) {
  Bits bits;
  bits.add(layers.size());
  for (const LayerPositions& s : layers) {
    to.texts.push_back(s.type);
    add_all(bits, s.rotary, s.attention_scale, s.window, s.chunk, s.numerics, s.output_turned_back, s.skipped_tokens, s.first_position);
    add(bits, s.bias);
    add(bits, s.additive);
    add(bits, s.query_temperature);
    add(bits, s.dual_chunk);
  }
  to.words.insert(to.words.end(), bits.words.begin(), bits.words.end());
}

Contents contents(const ModelPositions& model) {
  Contents all{{model.dialect, model.model_type, model.text_type}, {}};
  add(all, model.layers);
  for (const ModelTower& tower : model.towers) {
    all.texts.insert(all.texts.end(), {tower.name, tower.model_type});
    add(all, tower.layers);
  }
  all.texts.insert(all.texts.end(), model.warnings.begin(), model.warnings.end());
  all.words.push_back(static_cast<std::uint64_t>(model.trained_length));
  all.words.push_back(static_cast<std::uint64_t>(model.length));
  return all;
}

/// A model through the structs of C, in a handle.
Owned<phasor_model> through_structs(const ModelPositions& model) {
  const auto first = std::make_unique<phasor_model>(model);
  auto positions = sized<phasor_model_positions>();
  succeeds([&](phasor_error* error) { return phasor_model_get_positions(first.get(), &positions, error); });
  return owned<phasor_model>([&](phasor_model** again, phasor_error* error) { return phasor_model_make(&positions, again, error); });
}

/// Every field of every struct away from its default.
ModelPositions everything() {
  ModelPositions model = models::gemma3();
  model.text_type = "text";
  model.trained_length = 77;
  model.warnings = {"one", "", "three"};
  LayerPositions layer = models::deepseek_v3().layers[0];
  layer.type = "odd";
  layer.bias =
      ModelBias{.kind = ModelBias::Kind::swin, .heads = 3, .buckets = 5, .max_distance = 7, .max_alibi = 4.5, .bidirectional = true};
  layer.additive = ModelAdditive{.kind = ModelAdditive::Kind::sinusoidal, .length = 11, .width = 13, .first_position = -2};
  layer.attention_scale = 0;
  layer.query_temperature = QueryTemperature{.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1};
  layer.window = 17;
  layer.chunk = 19;
  layer.dual_chunk = ModelDualChunk{.chunk_size = 23, .local_size = 29};
  layer.numerics = Numerics::exact;
  layer.output_turned_back = true;
  layer.skipped_tokens = 31;
  layer.first_position = 37;
  model.towers.resize(2);
  model.towers[0] = {"vision", "tower_type", {layer, {}, models::llama31().layers[0]}};
  model.towers[1].name = "audio";
  return model;
}

TEST(CModel, a_config_is_what_cpp_reads_and_goes_through_structs_unchanged) {
  std::size_t towers = 0;
  for (const std::string& name : golden_names()) {
    SCOPED_TRACE(name);
    const std::string json = text_of(*golden(name + ".json").find("config"));
    const ModelPositions want = *parse_hf_config(json, {.length = 5000});
    auto options = sized<phasor_read_options>();
    options.length = 5000;
    const auto model = owned<phasor_model>(
        [&](phasor_model** to, phasor_error* error) { return phasor_parse_hf_config(json.data(), json.size(), &options, to, error); });
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(contents(model->value) == contents(want));
    EXPECT_TRUE(contents(through_structs(want)->value) == contents(want));
    towers += want.towers.size();
  }
  EXPECT_GT(towers, 3U);
}

TEST(CModel, options_reach_the_readers) {
  const std::string json =
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"max_position_embeddings":100,
          "rope_theta":10000,"rope_scaling":{"rope_type":"dynamic","factor":2}})";
  auto options = sized<phasor_read_options>();
  options.length = 5000;
  const auto with = [&](const phasor_read_options* how) {
    const auto model = owned<phasor_model>(
        [&](phasor_model** to, phasor_error* error) { return phasor_parse_hf_config(json.data(), json.size(), how, to, error); });
    auto layer = sized<phasor_layer_positions>();
    succeeds([&](phasor_error* error) { return phasor_model_get_layer(model.get(), -1, 1, &layer, error); });
    EXPECT_EQ(layer.rotary->scaling->kind, PHASOR_SCALING_DYNAMIC_NTK);
    return layer.rotary->scaling->length;
  };
  EXPECT_EQ(with(&options), 5000);
  EXPECT_NE(with(nullptr), 5000);
}

TEST(CModel, gguf_files_are_read_from_bytes_and_from_paths) {
  for (const char* name : {"llama-3.1", "gemma3", "phi3", "qwen2vl", "t5", "mpt", "gpt-oss"}) {
    SCOPED_TRACE(name);
    const std::string path = golden_file(std::string("gguf/") + name + ".gguf");
    const std::string bytes = file_bytes(path);
    const Contents want = contents(*parse_gguf(as_bytes(bytes)));
    const auto parsed = owned<phasor_model>([&](phasor_model** to, phasor_error* error) {
      return phasor_parse_gguf(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), nullptr, to, error);
    });
    const auto read =
        owned<phasor_model>([&](phasor_model** to, phasor_error* error) { return phasor_read_model(path.c_str(), nullptr, to, error); });
    EXPECT_TRUE(contents(parsed->value) == want);
    EXPECT_TRUE(contents(read->value) == want);
    EXPECT_TRUE(contents(through_structs(parsed->value)->value) == want);
  }
}

TEST(CModel, every_field_goes_through_the_structs) {
  const ModelPositions model = everything();
  const Owned<phasor_model> again = through_structs(model);
  EXPECT_TRUE(contents(again->value) == contents(model));
  auto positions = sized<phasor_model_positions>();
  succeeds([&](phasor_error* error) { return phasor_model_get_positions(again.get(), &positions, error); });
  EXPECT_EQ(std::string(positions.dialect), "huggingface");
  EXPECT_EQ(std::string(positions.text_type), "text");
  EXPECT_EQ(std::string(positions.model_type), "gemma3_text");
  EXPECT_EQ(positions.trained_length, 77);
  EXPECT_EQ(positions.length, 131072);
  EXPECT_EQ(positions.layer_count, 34U);
  ASSERT_EQ(positions.tower_count, 2U);
  EXPECT_EQ(std::string(positions.towers[0]->name), "vision");
  EXPECT_EQ(std::string(positions.towers[0]->model_type), "tower_type");
  EXPECT_EQ(positions.towers[0]->layers[0]->first_position, 37);
  EXPECT_EQ(positions.towers[1]->layer_count, 0U);
  ASSERT_EQ(positions.warning_count, 3U);
  EXPECT_EQ(std::string(positions.warnings[2]), "three");

  auto layer = sized<phasor_layer_positions>();
  succeeds([&](phasor_error* error) { return phasor_model_get_layer(again.get(), 0, 0, &layer, error); });
  EXPECT_EQ(std::string(layer.type), "odd");
  EXPECT_EQ(layer.bias->kind, PHASOR_MODEL_BIAS_SWIN);
  EXPECT_EQ(layer.bias->heads, 3);
  EXPECT_EQ(layer.bias->buckets, 5);
  EXPECT_EQ(layer.bias->max_distance, 7);
  EXPECT_EQ(layer.bias->max_alibi, 4.5);
  EXPECT_EQ(layer.bias->bidirectional, 1);
  EXPECT_EQ(layer.additive->kind, PHASOR_MODEL_ADDITIVE_SINUSOIDAL);
  EXPECT_EQ(layer.additive->length, 11);
  EXPECT_EQ(layer.additive->width, 13);
  EXPECT_EQ(layer.additive->first_position, -2);
  EXPECT_EQ(layer.query_temperature->scale, 0.1);
  EXPECT_EQ(layer.dual_chunk->chunk_size, 23);
  EXPECT_EQ(layer.dual_chunk->local_size, 29);
  EXPECT_EQ(layer.has_attention_scale, 1);
  EXPECT_EQ(layer.window, 17);
  EXPECT_EQ(layer.chunk, 19);
  EXPECT_EQ(layer.numerics, PHASOR_NUMERICS_EXACT);
  EXPECT_EQ(layer.has_numerics, 1);
  EXPECT_EQ(layer.output_turned_back, 1);
  EXPECT_EQ(layer.skipped_tokens, 31);
  EXPECT_EQ(layer.first_position, 37);
  EXPECT_EQ(layer.rotary->scaling->kind, PHASOR_SCALING_YARN);
  succeeds([&](phasor_error* error) { return phasor_model_get_layer(again.get(), 0, 1, &layer, error); });
  EXPECT_EQ(layer.rotary, nullptr);
  EXPECT_EQ(layer.bias, nullptr);
  EXPECT_EQ(layer.has_attention_scale, 0);
  EXPECT_EQ(layer.numerics, PHASOR_NUMERICS_HF);
}

TEST(CModel, what_a_caller_leaves_zero_is_the_default) {
  const auto layer = sized<phasor_layer_positions>();
  const auto bias = sized<phasor_model_bias>();
  phasor_layer_positions biased = layer;
  biased.bias = &bias;
  const phasor_layer_positions* layers[] = {&layer, &biased};
  auto positions = sized<phasor_model_positions>();
  positions.layers = layers;
  positions.layer_count = 2;
  const auto model = owned<phasor_model>([&](phasor_model** to, phasor_error* error) { return phasor_model_make(&positions, to, error); });
  ModelPositions want;
  want.layers.resize(2);
  want.layers[1].bias = ModelBias{};
  EXPECT_TRUE(contents(model->value) == contents(want));
}

TEST(CModel, the_rotary_of_a_layer_is_made_ready_exact_or_in_its_profile) {
  const std::string path = golden_file("gguf/llama-3.1.gguf");
  const auto model =
      owned<phasor_model>([&](phasor_model** to, phasor_error* error) { return phasor_read_model(path.c_str(), nullptr, to, error); });
  RotarySpec spec = *read_model(path)->layers[1].rotary;
  for (const bool own : {false, true}) {
    const auto rotary = owned<phasor_rotary>(
        [&](phasor_rotary** to, phasor_error* error) { return phasor_model_make_rotary(model.get(), -1, 1, own ? 2 : 0, to, error); });
    if (own) spec.numerics = Numerics::ggml;
    EXPECT_EQ(bits(AnySpec(rotary->value.spec())), bits(AnySpec(spec)));
    EXPECT_EQ(rotary->value.frequencies(), Rotary::make(spec)->frequencies());
  }
  const Owned<phasor_model> towers = through_structs(everything());
  const auto rotary = owned<phasor_rotary>(
      [&](phasor_rotary** to, phasor_error* error) { return phasor_model_make_rotary(towers.get(), 0, 2, 0, to, error); });
  EXPECT_EQ(bits(AnySpec(rotary->value.spec())), bits(AnySpec(Rotary::make(*models::llama31().layers[0].rotary)->spec())));
  phasor_rotary* none = nullptr;
  const auto refused = [&](std::int64_t tower, std::size_t index) {
    return failure(PHASOR_INVALID,
                   [&](phasor_error* error) { return phasor_model_make_rotary(towers.get(), tower, index, 0, &none, error); });
  };
  EXPECT_EQ(refused(0, 1), "model_make_rotary: layer 1 has no rotary encoding, wanted one that has");
  EXPECT_EQ(refused(0, 3), "model_make_rotary: layer is 3, and there are 3, wanted one of them");
  EXPECT_EQ(refused(2, 0), "model_make_rotary: tower is 2, wanted -1 to 1");
  EXPECT_EQ(refused(-2, 0), "model_make_rotary: tower is -2, wanted -1 to 1");
  EXPECT_EQ(none, nullptr);
}

TEST(CModel, models_are_explained_and_written_as_in_cpp) {
  const ModelPositions value = models::gemma3();
  const Owned<phasor_model> model = through_structs(value);
  auto only = sized<phasor_explain_options>();
  only.layer = 0;  // a layer of its own: without the flag it would be all of them
  only.has_layer = 1;
  const phasor_explain_options* cases[] = {nullptr, &only};
  for (const phasor_explain_options* options : cases) {
    const ExplainOptions same{.layer = options == nullptr ? std::nullopt : std::optional<std::int64_t>(0)};
    EXPECT_EQ(text_by([&](phasor_text* text, phasor_error* error) { return phasor_explain(model.get(), options, text, error); }),
              *explain(value, same));
    EXPECT_EQ(text_by([&](phasor_text* text, phasor_error* error) { return phasor_explain_json(model.get(), options, text, error); }),
              *explain_json(value, same));
  }
  EXPECT_NE(*explain(value), *explain(value, {.layer = 0}));
  only.layer = 99;
  phasor_text text = {};
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_explain(model.get(), &only, &text, error); }),
            explain(value, {.layer = 99}).status().message());
  only.has_layer = 0;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_explain_json(model.get(), &only, &text, error); }),
            "explain_json: layer is given and has_layer is 0, wanted 1");

  const ModelPositions llama = models::llama31();
  const Owned<phasor_model> written = through_structs(llama);
  EXPECT_EQ(text_by([&](phasor_text* json, phasor_error* error) { return phasor_to_hf_config(written.get(), json, error); }),
            *to_hf_config(llama));
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_to_gguf_keys(written.get(), "llama", &text, error); }),
            to_gguf_keys(llama, "llama").status().message());
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_to_gguf_keys(written.get(), nullptr, &text, error); }),
            "to_gguf_keys: architecture is null, wanted one");
  const ModelPositions gguf = *read_model(golden_file("gguf/llama-3.1.gguf"));
  const Owned<phasor_model> from_gguf = through_structs(gguf);
  EXPECT_EQ(text_by([&](phasor_text* json, phasor_error* error) { return phasor_to_gguf_keys(from_gguf.get(), "llama", json, error); }),
            *to_gguf_keys(gguf, "llama"));
}

TEST(CModel, differences_are_those_of_cpp) {
  const ModelPositions left = models::llama31();
  const ModelPositions right = models::gpt_oss();
  const std::vector<Difference> want = *diff(left, right);
  ASSERT_GT(want.size(), 1U);
  const Owned<phasor_model> a = through_structs(left);
  const Owned<phasor_model> b = through_structs(right);
  const auto list =
      owned<phasor_differences>([&](phasor_differences** to, phasor_error* error) { return phasor_diff(a.get(), b.get(), to, error); });
  ASSERT_EQ(phasor_differences_count(list.get()), want.size());
  auto one = sized<phasor_difference>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    succeeds([&](phasor_error* error) { return phasor_differences_get(list.get(), i, &one, error); });
    EXPECT_EQ(one.where, want[i].where);
    EXPECT_EQ(one.left, want[i].left);
    EXPECT_EQ(one.right, want[i].right);
    EXPECT_EQ(one.why, want[i].why);
    EXPECT_EQ(one.matters, want[i].matters ? 1 : 0);
  }
  const std::size_t count = want.size();
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_differences_get(list.get(), count, &one, error); }),
            "differences_get: index is " + std::to_string(count) + ", and there are " + std::to_string(count) + ", wanted one of them");
  const auto none =
      owned<phasor_differences>([&](phasor_differences** to, phasor_error* error) { return phasor_diff(a.get(), a.get(), to, error); });
  EXPECT_EQ(phasor_differences_count(none.get()), 0U);
  EXPECT_EQ(phasor_differences_count(nullptr), 0U);
}

TEST(CModel, what_cannot_be_read_is_refused) {
  phasor_model* none = nullptr;
  const auto refused = [&](const auto& fn, phasor_status status = PHASOR_INVALID) {
    const std::string message = failure(status, [&](phasor_error* error) { return fn(error); });
    EXPECT_EQ(none, nullptr);
    return message;
  };
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_read_model(nullptr, nullptr, &none, e); }),
            "read_model: path is null, wanted one");
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_read_model("/nowhere/at/all", nullptr, &none, e); }, PHASOR_NOT_FOUND),
            read_model("/nowhere/at/all").status().message());
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_hf_config("{}", 2, nullptr, nullptr, e); }),
            "parse_hf_config: model is null, wanted one");
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_hf_config(nullptr, 2, nullptr, &none, e); }),
            "parse_hf_config: the text is null, wanted one");
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_hf_config("[", 1, nullptr, &none, e); }),
            parse_hf_config("[").status().message());
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_gguf(nullptr, 0, nullptr, &none, e); }), parse_gguf({}).status().message());
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_gguf(nullptr, 9, nullptr, &none, e); }),
            "parse_gguf: bytes is null and has 9 elements, wanted their memory");
  phasor_read_options options = {};
  EXPECT_EQ(refused([&](phasor_error* e) { return phasor_parse_hf_config("{}", 2, &options, &none, e); }),
            "parse_hf_config: the size of the options is 0, wanted its sizeof, 16 in this version");
}

TEST(CModel, structs_that_contradict_themselves_are_refused) {
  phasor_model* none = nullptr;
  auto positions = sized<phasor_model_positions>();
  const auto refused = [&] {
    const std::string message = failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_model_make(&positions, &none, error); });
    EXPECT_EQ(none, nullptr);
    return message;
  };
  positions.layer_count = 3;
  EXPECT_EQ(refused(), "model_make: layers is null and has 3 elements, wanted their memory");
  auto layer = sized<phasor_layer_positions>();
  const phasor_layer_positions* layers[] = {&layer, nullptr};
  positions.layers = layers;
  positions.layer_count = 2;
  EXPECT_EQ(refused(), "model_make: a layer is null, wanted one");
  positions.layer_count = 1;
  layer.attention_scale = 2;
  EXPECT_EQ(refused(), "model_make: attention_scale is given and has_attention_scale is 0, wanted 1");
  layer = sized<phasor_layer_positions>();
  layer.has_numerics = 1;
  layer.numerics = 5;
  EXPECT_EQ(refused(), "model_make: numerics is 5, wanted 0 to 4");
  layer = sized<phasor_layer_positions>();
  auto bias = sized<phasor_model_bias>();
  bias.kind = 6;
  layer.bias = &bias;
  EXPECT_EQ(refused(), "model_make: kind is 6, wanted 0 to 5");
  layer = sized<phasor_layer_positions>();
  layer.size = 4;
  EXPECT_EQ(refused(), "model_make: the size of a layer is 4, wanted its sizeof, " + std::to_string(sizeof(phasor_layer_positions)) +
                           " in this version");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_model_make(nullptr, &none, error); }),
            "model_make: positions is null, wanted one");
}

TEST(CModel, no_model_is_an_error_and_is_freed_in_silence) {
  phasor_text text = {};
  auto positions = sized<phasor_model_positions>();
  auto layer = sized<phasor_layer_positions>();
  phasor_differences* differences = nullptr;
  EXPECT_EQ(phasor_model_get_positions(nullptr, &positions, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_model_get_layer(nullptr, -1, 0, &layer, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_explain(nullptr, nullptr, &text, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_explain_json(nullptr, nullptr, &text, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_to_hf_config(nullptr, &text, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_diff(nullptr, nullptr, &differences, nullptr), PHASOR_INVALID);
  phasor_model_free(nullptr);
  phasor_differences_free(nullptr);
}

TEST(CModel, an_older_callers_layer_is_filled_as_far_as_it_goes) {
  const Owned<phasor_model> model = through_structs(everything());
  auto layer = sized<phasor_layer_positions>();
  layer.size = offsetof(phasor_layer_positions, window);
  layer.window = -1;
  succeeds([&](phasor_error* error) { return phasor_model_get_layer(model.get(), 0, 0, &layer, error); });
  EXPECT_EQ(layer.has_numerics, 1);
  EXPECT_EQ(layer.window, -1);
  EXPECT_EQ(layer.size, offsetof(phasor_layer_positions, window));
}

}  // namespace
}  // namespace phasor::test
