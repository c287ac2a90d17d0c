// SPDX-License-Identifier: Apache-2.0
// What the benchmark of prepare_attention calls: the step before attention of some models into some caches, in one call and as steps of
// their own. On any device, so that a test without a GPU holds one against the other (tests/prepare/bench_cases_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.hpp"
#include "phasor/phasor.hpp"

namespace phasor::bench {

enum class Layout : std::uint8_t { vllm_flash, vllm_legacy, flashinfer_nhd, flashinfer_hnd, sglang, mla_plain, mla_656, mla_584 };

/// A model's heads as a row of its projection has them, and what happens to them.
struct PrepareModel {
  const char* name;
  RotarySpec rotary;
  std::int64_t q_heads = 32;
  std::int64_t k_heads = 8;
  std::int64_t q_dim = 128;     // of what is made ready of each head of q
  std::int64_t q_stride = 128;  // from head to head; what is made ready comes last
  std::int64_t k_dim = 128;
  std::int64_t norm_width = 0;  // of a head; 0: no norm
  bool norms_q = true;
  bool latent = false;  // MLA: no values, and one head that is key and value

  std::int64_t row() const { return q_heads * q_stride + (latent ? 1 : 2) * k_heads * k_dim; }
  std::int64_t axes() const { return rotary.axes.sections.empty() ? 1 : static_cast<std::int64_t>(rotary.axes.sections.size()); }
};

inline std::vector<PrepareModel> prepare_models() {
  PrepareModel llama = {.name = "Llama 3", .rotary = {.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{}}};
  PrepareModel qwen = {.name = "Qwen 3", .rotary = {.head_dim = 128, .base = 1000000}, .norm_width = 128};
  PrepareModel qwen_vl = qwen;
  qwen_vl.name = "Qwen3-VL";
  qwen_vl.rotary.base = 5000000;
  qwen_vl.rotary.axes = {.sections = {24, 20, 20}, .order = AxisOrder::interleaved};
  // One of eight GPUs: 16 heads of 128 + 64 channels, of which the last 64 are rotated.
  PrepareModel deepseek = {.name = "DeepSeek",
                           .rotary = {.head_dim = 576, .rotary_width = 64, .rotary_offset = 512, .pairing = Pairing::interleaved},
                           .q_heads = 16,
                           .k_heads = 1,
                           .q_dim = 64,
                           .q_stride = 192,
                           .k_dim = 576,
                           .norm_width = 512,
                           .norms_q = false,
                           .latent = true};
  deepseek.rotary.scaling = YarnScaling{.factor = 40, .original_length = 4096, .mscale = 1.0, .mscale_all_dim = 1.0};
  // Its head is 512 wide, the last 64 rotated, and normed whole.
  PrepareModel deepseek_v4 = deepseek;
  deepseek_v4.name = "DeepSeek V4";
  deepseek_v4.rotary.head_dim = 512;
  deepseek_v4.rotary.rotary_offset = 448;
  deepseek_v4.q_stride = 512;
  deepseek_v4.k_dim = 512;
  return {llama, qwen, qwen_vl, deepseek, deepseek_v4};
}

/// Of what is stored in 8 bits: one of the tensor's, or one made for each token and head, beside the cache. MLA's rows have their own.
enum class ScalesOf : std::uint8_t { tensor, token };

struct PrepareCase {
  PrepareModel model;
  Layout layout = Layout::vllm_flash;
  Storage storage = Storage::bf16;
  ScalesOf scales = ScalesOf::tensor;

  bool mixes_dtypes() const { return layout == Layout::mla_656 || layout == Layout::mla_584; }

  std::string name() const {
    constexpr const char* kLayouts[] = {"vLLM flash", "vLLM D/x",   "FlashInfer NHD", "FlashInfer HND",
                                        "SGLang",     "plain rows", "656 bytes",      "584 bytes"};
    const std::string stored = mixes_dtypes() ? "" : storage == Storage::bf16 ? ", bf16" : storage == Storage::i8 ? ", int8" : ", fp8";
    return std::string(model.name) + ", " + kLayouts[static_cast<std::size_t>(layout)] + stored +
           (scales == ScalesOf::token ? ", scales by token" : "");
  }
};

inline std::vector<PrepareCase> prepare_cases() {
  std::vector<PrepareCase> cases;
  for (const PrepareModel& model : prepare_models()) {
    if (model.latent) {
      const bool wide = model.k_dim == 576;
      if (wide) cases.push_back({model, Layout::mla_plain, Storage::bf16});
      cases.push_back({model, wide ? Layout::mla_656 : Layout::mla_584, Storage::f8_e4m3});
      continue;
    }
    cases.push_back({model, Layout::vllm_flash, Storage::i8});
    cases.push_back({model, Layout::vllm_flash, Storage::i8, ScalesOf::token});
    cases.push_back({model, Layout::vllm_flash, Storage::f8_e4m3, ScalesOf::token});
    for (const Storage storage : {Storage::bf16, Storage::f8_e4m3}) {
      for (const Layout layout :
           {Layout::vllm_flash, Layout::vllm_legacy, Layout::flashinfer_nhd, Layout::flashinfer_hnd, Layout::sglang}) {
        cases.push_back({model, layout, storage});
      }
    }
  }
  return cases;
}

/// Buffers of a call, on whichever device.
enum Buffer : std::uint8_t {
  kRows,       // what the projection gave
  kWeight,     // of the norms
  kPositions,  // (axes, 1, T)
  kSlots,      // places of tokens: slots, or FlashInfer's four lists
  kIndptr,
  kIndices,
  kRequests,
  kPlaces,
  kQuery,  // results of one call
  kCache,
  kScales,      // those made for each token and head: keys', then values'
  kStepsQuery,  // results of the steps
  kStepsKey,    // between them
  kStepsCache,
  kStepsScales,
  kBuffers
};
/// One case of so many tokens: its memory, and its calls.
class PrepareCall {
 public:
  PrepareCall(const PrepareCase& c, std::int64_t tokens)
      : case_(c), tokens_(tokens), rotary_(*Rotary::make(c.model.rotary)), part_(*Rotary::make(spec_of_part(c.model.rotary))) {}

  /// What every buffer holds before the call.
  HostBuffers buffers() const {
    const PrepareModel& m = case_.model;
    HostBuffers all(kBuffers);
    all[kRows] = some_bf16(tokens_ * m.row());
    all[kWeight] = some_bf16(m.norm_width);
    all[kPositions] = as_bytes(some_positions());
    fill_places(all);
    all[kQuery].resize(static_cast<std::size_t>(tokens_ * m.q_heads * m.q_dim * 2), kUntouched);
    all[kStepsKey].resize(static_cast<std::size_t>(tokens_ * m.k_heads * m.k_dim * 2), kUntouched);
    all[kCache].resize(static_cast<std::size_t>(blocks() * block() * token_bytes()), kUntouched);
    all[kScales].resize(static_cast<std::size_t>(blocks() * block() * scale_bytes()), kUntouched);
    all[kStepsQuery] = all[kQuery];
    all[kStepsCache] = all[kCache];
    all[kStepsScales] = all[kScales];
    return all;
  }
  Moved moved() const {
    const PrepareModel& m = case_.model;
    return {static_cast<std::size_t>(tokens_ * (m.row() - m.q_heads * (m.q_stride - m.q_dim)) * 2),
            static_cast<std::size_t>(tokens_ * (m.q_heads * m.q_dim * 2 + token_bytes() + scale_bytes()))};
  }

  /// All in one call: from kRows to kQuery and kCache.
  Status fused(const On& on) const {
    const PrepareOutputs to = {tensor_cache(query(on, kQuery)), key_cache(on, kOfCall), value_cache(on, kOfCall), places(on)};
    PrepareSpec spec = norms(on);
    if (case_.model.latent) spec.q_rotary_offset = 0;
    return prepare_attention(rows(on), {{&rotary_, 1}, positions_of(on), {}}, to, spec, on.execution);
  }
  /// A norm, a rotation and a copy into the cache: from kRows by kStepsQuery and kStepsKey to kStepsCache, the same bytes.
  Status in_steps(const On& on) const {
    const PrepareInputs in = rows(on);
    const TensorView q = query(on, kStepsQuery);
    const TensorView k = heads(on.memory[kStepsKey], {1, tokens_, case_.model.k_heads, case_.model.k_dim}, on.device);
    const bool normed = case_.model.norm_width != 0;
    if (normed) {
      PrepareInputs some = in;
      some.v = {};
      if (!case_.model.norms_q) some.q = {};
      const PrepareOutputs to = {case_.model.norms_q ? CacheParts(tensor_cache(q)) : CacheParts(), tensor_cache(k), {}, {}};
      if (Status status = prepare_attention(some, {}, to, norms(on), on.execution); !status.ok()) return status;
    }
    const InOut turned_q = normed && case_.model.norms_q ? InOut(q) : InOut(in.q, q);
    const InOut turned_k = normed ? InOut(rotated_part(k)) : InOut(in.k, k);
    if (Status status = part_.apply(turned_q, turned_k, positions_of(on), {.execution = on.execution}); !status.ok()) return status;
    PrepareInputs written = in;
    written.q = {};
    written.k = k;
    const PrepareOutputs to = {{}, key_cache(on, kOfSteps), value_cache(on, kOfSteps), places(on)};
    return prepare_attention(written, {}, to, {}, on.execution);
  }

 private:
  static constexpr std::byte kUntouched{0x5a};
  static constexpr std::int64_t kPagesOfRequest = 64;
  static constexpr float kScale = 0.0371F;
  struct CacheBuffers {
    Buffer cache, scales;
  };
  static constexpr CacheBuffers kOfCall = {kCache, kScales};
  static constexpr CacheBuffers kOfSteps = {kStepsCache, kStepsScales};

  /// A rotation of the rotated channels alone, so that q and k whose other channels differ in number are turned by one call.
  static RotarySpec spec_of_part(RotarySpec spec) {
    spec.head_dim = spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width;
    spec.rotary_offset = 0;
    return spec;
  }
  std::int64_t block() const { return case_.model.latent ? 64 : 16; }
  std::int64_t blocks() const { return (tokens_ + block() - 1) / block(); }
  bool paged() const { return case_.layout == Layout::flashinfer_nhd || case_.layout == Layout::flashinfer_hnd; }
  /// Of a token in the cache, key and value.
  std::int64_t token_bytes() const {
    if (case_.mixes_dtypes()) return case_.layout == Layout::mla_656 ? 656 : 584;
    return (case_.model.latent ? 1 : 2) * case_.model.k_heads * case_.model.k_dim * bytes_of(case_.storage);
  }
  /// Of a token beside the cache.
  std::int64_t scale_bytes() const { return case_.scales == ScalesOf::token ? 2 * case_.model.k_heads * 4 : 0; }
  /// Text counts; images have a row and a column.
  std::vector<std::int64_t> some_positions() const {
    std::vector<std::int64_t> list;
    for (std::int64_t axis = 0; axis < case_.model.axes(); ++axis) {
      for (std::int64_t t = 0; t < tokens_; ++t) {
        list.push_back(case_.model.axes() == 1 ? 1000 + t : axis == 0 ? 1000 + t / 256 : axis == 1 ? 1000 + t / 16 % 16 : 1000 + t % 16);
      }
    }
    return list;
  }
  /// Blocks lie in the cache from the last to the first.
  void fill_places(HostBuffers& all) const {
    if (!paged()) {
      all[kSlots] = as_bytes(turned_slots(tokens_, block()));
      return;
    }
    const std::int64_t longest = kPagesOfRequest * block();
    std::vector<std::int32_t> indptr = {0}, indices, requests, inside;
    for (std::int64_t page = 0; page < blocks(); ++page) indices.push_back(static_cast<std::int32_t>(blocks() - 1 - page));
    for (std::int64_t page = 0; page < blocks(); page += kPagesOfRequest) {
      indptr.push_back(static_cast<std::int32_t>(page + kPagesOfRequest < blocks() ? page + kPagesOfRequest : blocks()));
    }
    for (std::int64_t t = 0; t < tokens_; ++t) {
      requests.push_back(static_cast<std::int32_t>(t / longest));
      inside.push_back(static_cast<std::int32_t>(t % longest));
    }
    all[kIndptr] = as_bytes(indptr);
    all[kIndices] = as_bytes(indices);
    all[kRequests] = as_bytes(requests);
    all[kPlaces] = as_bytes(inside);
  }
  template <class T>
  static IntegerList list_of(const On& on, Buffer buffer, std::int64_t size) {
    IntegerList list = integers(static_cast<const T*>(on.memory[buffer]), size);
    list.device = on.device;
    return list;
  }
  TokenPlaces places(const On& on) const {
    TokenPlaces places;
    if (!paged()) {
      places.kind = TokenPlaces::Kind::slots;
      places.slots = list_of<std::int64_t>(on, kSlots, tokens_);
      return places;
    }
    places.kind = TokenPlaces::Kind::pages;
    places.indptr = list_of<std::int32_t>(on, kIndptr, (blocks() + kPagesOfRequest - 1) / kPagesOfRequest + 1);
    places.indices = list_of<std::int32_t>(on, kIndices, blocks());
    places.requests = list_of<std::int32_t>(on, kRequests, tokens_);
    places.places = list_of<std::int32_t>(on, kPlaces, tokens_);
    return places;
  }
  Positions positions_of(const On& on) const {
    Positions at = positions(static_cast<const std::int64_t*>(on.memory[kPositions]), case_.model.axes(), 1, tokens_);
    at.device = on.device;
    return at;
  }
  static TensorView heads(void* data, const Extents& shape, Device device) {
    return {data, DType::bf16, shape, contiguous_strides(shape), device};
  }
  TensorView query(const On& on, Buffer buffer) const {
    return heads(on.memory[buffer], {1, tokens_, case_.model.q_heads, case_.model.q_dim}, on.device);
  }
  PrepareInputs rows(const On& on) const {
    const PrepareModel& m = case_.model;
    const auto part = [&](std::int64_t first, std::int64_t count, std::int64_t dim, std::int64_t stride) {
      return ConstTensorView(static_cast<const std::byte*>(on.memory[kRows]) + first * 2, DType::bf16, {1, tokens_, count, dim},
                             {tokens_ * m.row(), m.row(), stride, 1}, on.device);
    };
    const std::int64_t k_first = m.q_heads * m.q_stride;
    return {part(m.q_stride - m.q_dim, m.q_heads, m.q_dim, m.q_stride),
            part(k_first, m.k_heads, m.k_dim, m.k_dim),
            m.latent ? ConstTensorView() : part(k_first + m.k_heads * m.k_dim, m.k_heads, m.k_dim, m.k_dim),
            {}};
  }
  TensorView rotated_part(TensorView k) const {
    k.data = static_cast<std::byte*>(k.data) + case_.model.rotary.rotary_offset * 2;
    k.shape[3] = part_.rotary_width();
    return k;
  }
  PrepareSpec norms(const On& on) const {
    PrepareSpec spec;
    if (case_.model.norm_width == 0) return spec;
    spec.k_norm.kind = HeadNorm::Kind::rms;
    spec.k_norm.cast = HeadNorm::Cast::before_weight;
    spec.k_norm.weight = ConstTensorView(heads(on.memory[kWeight], {1, 1, 1, case_.model.norm_width}, on.device));
    spec.k_norm.width = case_.model.norm_width == case_.model.k_dim ? 0 : case_.model.norm_width;
    if (case_.model.norms_q) spec.q_norm = spec.k_norm;
    return spec;
  }
  CachePair pair_of(void* data, std::int64_t half) const {
    const CacheShape shape = {blocks(), block(), case_.model.k_heads, case_.model.k_dim};
    void* const second = static_cast<std::byte*>(data) + half;
    switch (case_.layout) {
      case Layout::vllm_legacy:
        return {vllm_key_cache(data, case_.storage, shape), vllm_value_cache(second, case_.storage, shape)};
      case Layout::flashinfer_nhd:
        return flashinfer_cache(data, case_.storage, shape, HeadOrder::nhd);
      case Layout::flashinfer_hnd:
        return flashinfer_cache(data, case_.storage, shape, HeadOrder::hnd);
      case Layout::sglang:
        return {sglang_cache(data, case_.storage, blocks() * block(), shape.heads, shape.head_dim),
                sglang_cache(second, case_.storage, blocks() * block(), shape.heads, shape.head_dim)};
      default:
        return vllm_flash_cache(data, case_.storage, shape);
    }
  }
  /// Scales where it has 8 bits. Of the tensor's FlashInfer multiplies by them, the others divide; those made lie as tokens do, keys' (half
  /// 0) before values'.
  CacheParts finished(CacheView view, const On& on, void* scales, std::int64_t half) const {
    view.device = on.device;
    if (bytes_of(case_.storage) != 1) return view;
    const std::int64_t heads = case_.model.k_heads;
    if (case_.scales == ScalesOf::token) {
      view.scales.kind = CacheScales::Kind::made;
      view.scales.data = static_cast<float*>(scales) + half * blocks() * block() * heads;
      view.scales.strides = {block() * heads, heads, 1, 1};
      return view;
    }
    view.scales.kind = CacheScales::Kind::given;
    view.scales.use = paged() ? CacheScales::Use::multiply : CacheScales::Use::divide;
    view.scales.value = paged() ? 1 / kScale : kScale;
    return view;
  }
  CacheParts key_cache(const On& on, const CacheBuffers& to) const {
    void* const data = on.memory[to.cache];
    if (case_.mixes_dtypes()) {
      CacheParts parts = case_.layout == Layout::mla_656 ? mla_656_cache(data, blocks(), block()) : mla_584_cache(data, blocks(), block());
      for (CacheView& part : parts.parts) part.device = on.device;
      return parts;
    }
    void* const scales = on.memory[to.scales];
    if (case_.layout == Layout::mla_plain) {
      return finished(contiguous_cache(data, case_.storage, {blocks(), block(), 1, case_.model.k_dim}), on, scales, 0);
    }
    return finished(pair_of(data, blocks() * block() * token_bytes() / 2).k, on, scales, 0);
  }
  CacheParts value_cache(const On& on, const CacheBuffers& to) const {
    if (case_.model.latent) return {};
    return finished(pair_of(on.memory[to.cache], blocks() * block() * token_bytes() / 2).v, on, on.memory[to.scales], 1);
  }

  PrepareCase case_;
  std::int64_t tokens_;
  Rotary rotary_;
  Rotary part_;
};

}  // namespace phasor::bench
