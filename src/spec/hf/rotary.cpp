// SPDX-License-Identifier: Apache-2.0
// Layers that rotate text: which dictionary, base, window, temperature and scale each has.
#include <algorithm>
#include <map>
#include <utility>

#include "math/gain.hpp"
#include "spec/hf/layers.hpp"
#include "spec/hf/rope.hpp"
#include "spec/rotary.hpp"

namespace phasor::spec {
namespace {

/// The rope dictionary of one kind of layer.
struct Dict {
  std::optional<Section> section = std::nullopt;
  bool null = false;    // said to have no encoding
  bool nested = false;  // one of several
};

class RotaryReader {
 public:
  RotaryReader(Reading& reading, const Section& config, const Model& model)
      : reading_(reading),
        config_(config),
        model_(model),
        shape_(read_shape(config, model)),
        types_(read_layer_types(config, model, shape_.layers)) {
    read_dictionary();
    read_lists();
    name_chunked_layers();
  }

  Part read() {
    Part part;
    part.length = shape_.length;
    for (std::int64_t i = 0; i < shape_.layers; ++i) part.layers.push_back(layer(i));
    part.trained_length = trained_length_ > 0 ? trained_length_ : shape_.length;
    part.length = std::max(part.length, extended_length_);
    if (config_.boolean({"use_dynamic_ntk"}).value_or(false)) {
      reading_.warn("use_dynamic_ntk is true: the base grows beyond the trained length; the base here is that of the trained length");
    }
    return part;
  }

 private:
  const std::string& type(std::int64_t i) const { return types_[static_cast<std::size_t>(i)]; }

  // ---- Dictionaries ----

  /// The label under which rope_parameters has a layer type.
  std::string label(const std::string& type) const {
    if (!model_.has(quirk_compress_labels)) return type;
    return slides(type) ? "main" : "compress";
  }

  /// An older rope_scaling that is not empty wins, as it does for transformers.
  void read_dictionary() {
    const std::optional<Section> older = config_.section({"rope_scaling"});
    const std::optional<Section> newer = config_.section({"rope_parameters"});
    const bool older_counts = older && !older->json().members.empty();
    if (older_counts && newer) reading_.warn(config_.path_of("rope_scaling") + " and rope_parameters are both there; rope_scaling is read");
    dict_ = older_counts ? older : newer;
    if (!dict_) return;
    for (const auto& [key, value] : dict_->json().members) {
      const bool is_label = std::any_of(types_.begin(), types_.end(), [&, &key = key](const std::string& t) { return label(t) == key; });
      nested_ = nested_ || value.is(Json::Kind::object) || (is_label && !key.empty());
    }
    if (!nested_) return;
    const bool untyped = std::all_of(types_.begin(), types_.end(), [](const std::string& t) { return t.empty(); });
    if (untyped)
      fail_config(config_.path_of("layer_types") + " is missing, wanted the type of each layer, because " + dict_->path() + " is by type");
  }

  Dict dict_of(const std::string& type) const {
    const bool local = slides(type);
    if (!dict_) return {};
    if (!nested_) {
      const bool others = (model_.has(quirk_scaling_is_full) && local) || (model_.has(quirk_compress_labels) && local);
      return others ? Dict{} : Dict{.section = dict_};
    }
    const std::string key = label(type);
    if (dict_->mentions(key) && !dict_->has(key)) return {.null = true, .nested = true};
    if (dict_->has(key)) return {.section = dict_->section({key}), .nested = true};
    if (model_.local_base == 0) fail_config(dict_->path_of(key) + " is missing, wanted the parameters of layer type " + json_string(type));
    return {.nested = true};
  }

  // ---- What the top level says ----

  double base_of(const std::string& type) const {
    const double global = config_.positive({"rope_theta", "rotary_emb_base", "global_rope_theta"}).value_or(model_.base);
    if (model_.has(quirk_compress_labels)) {
      if (slides(type)) return config_.positive({"rope_theta"}).value_or(model_.local_base);
      return config_.positive({"compress_rope_theta"}).value_or(model_.base);
    }
    if (!slides(type)) return global;
    const std::optional<double> local = config_.positive({"rope_local_base_freq", "local_rope_theta", "swa_rope_theta"});
    return local.value_or(model_.local_base != 0 ? model_.local_base : global);
  }

  double share_of(const std::string& type) const {
    const Found found = config_.find({"partial_rotary_factor", "rotary_pct", "rope_pct"});
    if (!found) return slides(type) && model_.local_share != 0 ? model_.local_share : model_.share;
    const double share = held(config_.number({"partial_rotary_factor", "rotary_pct", "rope_pct"}));
    if (!(share > 0 && share <= 1)) found.wrong("a number above 0, at most 1");
    return share;
  }

  std::int64_t width_of(std::int64_t head_dim) const {
    if (model_.place == Place::after_nope) return config_.integer({"qk_rope_head_dim"}).value_or(model_.mla[1]);
    if (model_.place == Place::trailing) return config_.count({"qk_rope_head_dim"}, head_dim).value_or(0);
    const auto own = config_.count({"rotary_dim"}, head_dim);
    if (own) return *own;
    return config_.mentions("rotary_dim") ? head_dim : model_.rotary_width;
  }

  RopeFrame frame_of(const std::string& type, std::int64_t head_dim, const Dict& dict) const {
    RopeFrame frame;
    frame.model = &model_;
    frame.head_dim = head_dim;
    frame.width = width_of(head_dim);
    frame.share = share_of(type);
    frame.base = base_of(type);
    frame.length = shape_.length;
    if (!dict.nested) frame.original_length = config_.count({"original_max_position_embeddings"}, most_positions);
    if (!dict.nested && model_.has(quirk_compress_labels)) frame.attention_factor = 1;  // DeepSeek-V4 does not scale cos and sin
    if (model_.has(quirk_proportional_full) && !slides(type)) {
      frame.type = "proportional";
      frame.share = config_.number({"partial_rotary_factor"}).value_or(0.25);
    }
    return frame;
  }

  // ---- Layers ----

  void read_lists() {
    const auto checked = [&](std::string_view key, std::size_t size) {
      if (size != 0 && static_cast<std::int64_t>(size) < shape_.layers) {
        config_.find({key}).wrong("an entry for each of " + std::to_string(shape_.layers) + " layers");
      }
    };
    rotating_ = config_.integers({"no_rope_layers"}).value_or(std::vector<std::int64_t>());
    checked("no_rope_layers", rotating_.size());
    bases_ = config_.numbers({"layer_rope_theta"}).value_or(std::vector<double>());
    checked("layer_rope_theta", bases_.size());
    read_own_heads();
  }

  /// per_layer_config: heads of single layers, by number ("05") or by layer type.
  void read_own_heads() {
    const std::optional<Section> each = config_.section({"per_layer_config"});
    if (!each) return;
    for (const auto& [key, value] : each->json().members) {
      if (!value.is(Json::Kind::object)) continue;
      const auto head_dim = Section(value, each->path_of(key)).count({"head_dim"}, most_channels);
      for (std::int64_t i = 0; head_dim && i < shape_.layers; ++i) {
        const std::string number = std::to_string(i);
        const std::size_t zeros = std::min(key.find_first_not_of('0'), key.size() - std::min<std::size_t>(key.size(), 1));
        if (key == type(i) || std::string_view(key).substr(zeros) == number) own_heads_[i] = *head_dim;
      }
    }
  }

  /// Llama 4 names its layers by whether they rotate.
  void name_chunked_layers() {
    if (model_.pattern.kind != LayerPattern::Kind::chunked || !types_.front().empty()) return;
    for (std::int64_t i = 0; i < shape_.layers; ++i)
      types_[static_cast<std::size_t>(i)] = rotates(i) ? "chunked_attention" : "full_attention";
  }

  bool rotates(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    if (!bases_.empty() && bases_[at] == 0) return false;
    if (!rotating_.empty()) return rotating_[at] != 0;
    const auto interval = config_.count({"no_rope_layer_interval"}, most_positions);
    if (interval || model_.unrotated == Unrotated::by_interval) return (i + 1) % interval.value_or(model_.interval) != 0;
    if (model_.unrotated == Unrotated::full_layers) return slides(type(i));
    if (model_.unrotated == Unrotated::full_layers_if_window) return slides(type(i)) || window_size() == 0;
    return true;
  }

  std::int64_t window_size() const {
    if (model_.has(quirk_half_window)) return config_.integer({"local_attention"}).value_or(model_.window);
    if (const auto size = config_.integer({"sliding_window_size"})) return *size + 1;  // MiMo counts the tokens before
    if (config_.mentions("sliding_window") && !config_.has("sliding_window")) return 0;
    const std::int64_t size = config_.integer({"sliding_window", "attention_window_size"}).value_or(model_.window);
    return size < 0 || size > most_positions ? 0 : size;
  }

  std::int64_t window_of(std::int64_t i) const {
    if (slides(type(i))) return window_size();
    const bool everywhere = model_.has(quirk_window_all) && type(i).empty() && config_.boolean({"use_sliding_window"}).value_or(true);
    return everywhere ? window_size() : 0;
  }

  std::int64_t head_dim_of(std::int64_t i) const {
    if (const auto own = own_heads_.find(i); own != own_heads_.end()) return own->second;
    if (model_.has(quirk_global_head_dim) && !slides(type(i))) {
      return config_.count({"global_head_dim"}, most_channels).value_or(config_.has("per_layer_config") ? shape_.head_dim : 512);
    }
    return shape_.head_dim;
  }

  /// Every layer of one label and head alike: read once.
  const Rope& rope_of(std::int64_t i, const Dict& dict) {
    const std::int64_t head_dim = head_dim_of(i);
    const auto key = std::make_pair(label(type(i)), head_dim);
    const auto known = ropes_.find(key);
    if (known != ropes_.end()) return known->second;
    Rope rope = read_rope(reading_, dict.section ? &*dict.section : nullptr, frame_of(type(i), head_dim, dict));
    trained_length_ = std::max(trained_length_, rope.trained_length);
    extended_length_ = std::max(extended_length_, rope.extended_length);
    return ropes_.emplace(key, std::move(rope)).first->second;
  }

  RotarySpec spec_of(std::int64_t i, const Rope& rope) const {
    RotarySpec spec = rope.spec;
    if (!bases_.empty()) {
      spec.base = bases_[static_cast<std::size_t>(i)];
      if (spec.base < 0) config_.find({"layer_rope_theta"}).wrong("numbers above 0, or 0 for a layer without positions");
    }
    spec.pairing = rope.pairing.value_or(model_.pairing);
    spec.output_pairing = model_.output_pairing;
    if (model_.has(quirk_interleave_key) && config_.boolean({"rope_interleave"}).value_or(true)) {
      spec.pairing = Pairing::interleaved;
      spec.output_pairing = Pairing::half;
    }
    spec.sense = model_.sense;
    if (model_.place != Place::leading) spec.rotary_offset = spec.head_dim - spec.rotary_width;
    if (const Status status = check(spec); !status) {
      throw ConfigError(Status::invalid("parse_hf_config: layer " + std::to_string(i) + ": " + status.message()));
    }
    return spec;
  }

  void add_temperature(LayerPositions& layer, const Rope* rope) const {
    QueryTemperature temperature{.kind = QueryTemperature::Kind::floored_log};
    if (rope != nullptr && rope->temperature) {
      if (rope->trained_length <= 0) held(dict_).missing("original_max_position_embeddings", "the positions of the training");
      temperature.scale = *rope->temperature;
      temperature.length = rope->trained_length;
    } else if (rope == nullptr && model_.has(quirk_temperature) && config_.boolean({"attn_temperature_tuning"}).value_or(true)) {
      temperature.scale = config_.number({"attn_scale"}).value_or(0.1);
      temperature.length = config_.count({"floor_scale"}, most_positions).value_or(8192);
      temperature.shift = 1;
    } else if (model_.has(quirk_log_n) && config_.boolean({"use_logn_attn"}).value_or(true)) {
      temperature = {.kind = QueryTemperature::Kind::log_n, .length = shape_.length};
    } else {
      return;
    }
    layer.query_temperature = temperature;
  }

  std::optional<double> attention_scale() const {
    switch (model_.scale) {
      case AttentionScale::usual:
        break;
      case AttentionScale::query_pre_attn_scalar:
        return math::attention_scale(config_.positive({"query_pre_attn_scalar"}).value_or(model_.scale_default));
      case AttentionScale::one:
        return 1;
      case AttentionScale::attention_multiplier:
        return config_.positive({"attention_multiplier"}).value_or(model_.scale_default);
    }
    return std::nullopt;
  }

  LayerPositions layer(std::int64_t i) {
    LayerPositions layer;
    layer.type = type(i);
    layer.numerics = model_.numerics;
    if (!attends(layer.type)) return layer;
    layer.window = window_of(i);
    if (layer.type == "chunked_attention") layer.chunk = config_.count({"attention_chunk_size"}, most_positions).value_or(8192);
    layer.attention_scale = attention_scale();
    layer.dual_chunk = dual_chunk();
    const Dict dict = dict_of(layer.type);
    const Rope* rope = dict.null || !rotates(i) ? nullptr : &rope_of(i, dict);
    if (rope != nullptr) {
      layer.rotary = spec_of(i, *rope);
      layer.output_turned_back = model_.has(quirk_turned_back);
    }
    add_temperature(layer, rope);
    return layer;
  }

  std::optional<ModelDualChunk> dual_chunk() const {
    const std::optional<Section> dual = config_.section({"dual_chunk_attention_config"});
    if (!dual) return std::nullopt;
    const auto chunk = dual->count({"chunk_size"}, most_positions);
    const auto local = dual->count({"local_size"}, most_positions);
    if (!chunk) dual->missing("chunk_size", "a number of positions");
    if (!local) dual->missing("local_size", "a number of positions");
    return ModelDualChunk{*chunk, *local};
  }

  Reading& reading_;
  const Section& config_;
  const Model& model_;
  Shape shape_;
  std::vector<std::string> types_;
  std::optional<Section> dict_;
  bool nested_ = false;
  std::vector<std::int64_t>
      rotating_;               // no_rope_layers, where 0 is a layer without rotary, whatever the name says; empty as in Llama 4: not said
  std::vector<double> bases_;  // layer_rope_theta; empty: not said
  std::map<std::int64_t, std::int64_t> own_heads_;
  std::map<std::pair<std::string, std::int64_t>, Rope> ropes_;
  std::int64_t trained_length_ = 0;
  std::int64_t extended_length_ = 0;
};

}  // namespace

Part read_rotary(Reading& reading, const Section& config, const Model& model) { return RotaryReader(reading, config, model).read(); }

}  // namespace phasor::spec
