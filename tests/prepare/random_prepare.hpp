// SPDX-License-Identifier: Apache-2.0
// Random calls of prepare_attention: every dtype, storage, layout, norm, scale and way to places, with awkward shapes. A call is its memory
// (buffers that are full of odd bytes) and a way to make its views, so that it can run several times on copies.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/random_specs.hpp"
#include "phasor/prepare.hpp"
#include "reference.hpp"

namespace phasor::test {

using reference::Element;
using Memory8 = std::vector<std::vector<std::byte>>;
/// Whoever runs it.
using RunPrepare = std::function<Status(const PrepareInputs&, const PrepareRotation&, const PrepareOutputs&, const PrepareSpec&)>;

class RandomPrepare {
 public:
  enum Buffer { kPacked, kQ, kK, kV, kScales, kWeights, kLists, kFactors, kBuffers };
  enum class Layout : std::uint8_t { contiguous, vllm, flash, nhd, hnd, sglang, mla_656, mla_584 };

  /// `of_models`: heads, norms and rotations of common models, which CUDA has kernels of its own for; `plain`: of the most common ones,
  /// which have more of them, with many tokens, too.
  explicit RandomPrepare(std::uint64_t seed, bool of_models = false, bool plain = false)
      : random_(seed), of_models_(of_models || plain), plain_(plain) {
    layout_ = static_cast<Layout>(pick(of_models_ ? 6 : 8));
    if (plain_ && layout_ == Layout::vllm) layout_ = Layout::flash;
    dtype_ = static_cast<DType>(std::array{0, 2, 3}[static_cast<std::size_t>(pick(3))]);
    batch_ = 1 + pick(3);
    tokens_ = 1 + pick(9);
    if (plain_) dtype_ = coin() ? DType::f16 : DType::bf16;
    if (plain_ && pick(6) == 0) tokens_ = 520 + pick(30);
    choose_heads();
    choose_specs();
    choose_norms();
    choose_places();
    fill_memory();
  }

  const Memory8& memory() const { return memory_; }
  Storage k_storage() const { return k_storage_; }

  Status run(Memory8& memory, const RunPrepare& prepare) const {
    Pointers at{};
    for (std::size_t b = 0; b < memory.size(); ++b) at[b] = memory[b].data();
    return run(at, {}, prepare);
  }
  /// On memory that is somewhere else.
  using Pointers = std::array<std::byte*, kBuffers>;
  Status run(const Pointers& memory, Device device, const RunPrepare& prepare) const {
    const Extents packed_shape = {batch_, tokens_, 1, row_};
    const ConstTensorView packed(memory[kPacked], dtype_, packed_shape, contiguous_strides(packed_shape));
    PrepareInputs inputs = unpack_qkv(packed, {heads_, k_heads_, head_dim_, extra_});
    if (is_mla()) {
      inputs.v = {};
      inputs.q.shape[3] = q_dim_;  // as if part of each head were not q's
    }
    if (has_factors_) inputs.query_factors = ConstTensorView(memory[kFactors], DType::f32, {batch_, tokens_, 1, 1}, {tokens_, 1, 1, 1});
    PrepareOutputs outputs = outputs_of(memory);
    outputs.places = places_of(memory);
    PrepareSpec spec = spec_;
    set_weights(memory, inputs, spec);
    PrepareRotation rotation;
    if (rotates_) rotation = {rotaries_, {.offset = offset_}, {}};
    if (rotaries_.size() > 1 && rotates_)
      rotation.spec_of = integers(integers_at(memory, spec_list_), by_token_ ? batch_ * tokens_ : batch_);
    for (ConstTensorView* const in :
         {&inputs.q, &inputs.k, &inputs.v, &inputs.query_factors, &spec.q_norm.weight, &spec.k_norm.weight, &spec.v_norm.weight}) {
      in->device = device;
    }
    for (CacheParts* const out : {&outputs.q, &outputs.k, &outputs.v}) {
      for (CacheView& part : out->parts) part.device = device;
    }
    TokenPlaces& places = outputs.places;
    for (IntegerList* const list :
         {&places.starts, &places.slots, &places.indptr, &places.indices, &places.requests, &places.places, &rotation.spec_of}) {
      list->device = device;
    }
    return prepare(inputs, rotation, outputs, spec);
  }

 private:
  /// In [-4, 4).
  static float number(Draw& random) { return static_cast<float>(8 * random.real() - 4); }
  std::int64_t pick(std::int64_t n) { return static_cast<std::int64_t>(random_.bits() % static_cast<std::uint64_t>(n)); }
  bool coin() { return pick(2) == 0; }
  bool is_mla() const { return layout_ == Layout::mla_656 || layout_ == Layout::mla_584; }

  void choose_heads() {
    heads_ = 1 + pick(5);
    k_heads_ = 1 + pick(3);
    head_dim_ = std::array<std::int64_t, 6>{16, 32, 48, 64, 80, 128}[static_cast<std::size_t>(pick(6))];
    if (of_models_) head_dim_ = std::array<std::int64_t, 3>{64, 128, 256}[static_cast<std::size_t>(pick(3))];
    if (of_models_) heads_ = 1 + pick(40);
    q_dim_ = head_dim_;
    if (is_mla()) {
      k_heads_ = 1;
      head_dim_ = layout_ == Layout::mla_656 ? 576 : 512;
      q_dim_ = 192;
      heads_ = 1 + pick(2);
    }
    extra_ = pick(3) * head_dim_;
    row_ = extra_ + (heads_ + 2 * k_heads_) * head_dim_ + pick(2) * head_dim_;
    const auto any = [&] { return static_cast<Storage>(pick(6)); };
    k_storage_ = any();
    v_storage_ = layout_ == Layout::contiguous || layout_ == Layout::vllm ? any() : k_storage_;
    q_storage_ = coin() ? static_cast<Storage>(std::array{0, 0, 1, 2}[static_cast<std::size_t>(dtype_)]) : any();
    const auto own = static_cast<Storage>(std::array{0, 0, 1, 2}[static_cast<std::size_t>(dtype_)]);
    const auto of_model = [&] { return coin() ? own : static_cast<Storage>(3 + pick(3)); };
    if (of_models_) k_storage_ = v_storage_ = of_model();
    if (of_models_) q_storage_ = of_model();
    k_scaling_ = pick(4);
    q_scaling_ = pick(4);
    if (!plain_) return;
    head_dim_ = q_dim_ = 128;
    if (tokens_ > 100) heads_ = 1 + pick(6);
    if (coin()) k_heads_ = 2;
    if (coin()) heads_ += heads_ % 2;
    row_ = (heads_ + 2 * k_heads_ + pick(2)) * head_dim_;
    extra_ = 0;
    q_storage_ = coin() ? own : Storage::f8_e4m3;
    k_storage_ = v_storage_ = coin() ? own : Storage::f8_e4m3;
    k_scaling_ = k_storage_ == own ? 0 : pick(2);
    q_scaling_ = q_storage_ == own ? 0 : pick(2);
  }

  void choose_specs() {
    rotates_ = pick(8) != 0;
    RotarySpec spec{.head_dim = head_dim_};
    if (is_mla()) {
      spec.rotary_width = 64;
      spec.rotary_offset = head_dim_ - 64;
      if (rotates_) spec_.q_rotary_offset = q_dim_ - 64;
    } else if (coin()) {
      spec.rotary_width = 2 * (1 + pick(head_dim_ / 2));
      spec.rotary_offset = pick(head_dim_ - spec.rotary_width + 1);
    }
    spec.pairing = coin() ? Pairing::half : Pairing::interleaved;
    if (of_models_) {
      spec.rotary_width = coin() ? head_dim_ : 64;
      spec.rotary_offset = spec.pairing == Pairing::half ? 0 : pick((head_dim_ - spec.rotary_width) / 8 + 1) * 8;
      if (pick(3) == 0) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};
    }
    if (plain_) {
      rotates_ = true;
      spec.pairing = Pairing::half;
      spec.rotary_width = spec.rotary_offset = 0;
    }
    if (!of_models_ && pick(4) == 0) spec.output_pairing = coin() ? Pairing::half : Pairing::interleaved;
    if (pick(8) == 0) spec.sense = Sense::clockwise;
    const std::int64_t specs = of_models_ ? 1 : 1 + pick(3);
    for (std::int64_t s = 0; s < specs; ++s) {
      spec.base = std::array{10000.0, 500000.0, 100.0}[static_cast<std::size_t>(s)];
      if (s == 2) spec.scaling = LinearScaling{.factor = 4};
      rotaries_.push_back(*Rotary::make(spec));
    }
    offset_ = pick(3) == 0 ? 0 : pick(100000);
    by_token_ = coin();
    if (coin()) spec_.between = PrepareSpec::Between::kept;
    if (coin()) spec_.query_scale = 0.3F;
    has_factors_ = pick(3) == 0;
    if (!plain_) return;
    spec_.between = {};
    spec_.query_scale = 1;
    has_factors_ = false;
  }

  HeadNorm random_norm(bool over_all_allowed) {
    HeadNorm norm;
    norm.kind = static_cast<HeadNorm::Kind>(pick(3));
    if (norm.kind == HeadNorm::Kind::none) return norm;
    if (over_all_allowed && !of_models_ && coin()) norm.over = HeadNorm::Over::all_heads;
    norm.weight_as = static_cast<HeadNorm::Weight>(pick(2));
    norm.cast = static_cast<HeadNorm::Cast>(pick(2));
    norm.epsilon = coin() ? 1e-6F : 1e-5F;
    if (plain_) norm.kind = HeadNorm::Kind::rms;
    if (plain_) norm.weight_as = {};
    if (plain_) norm.cast = HeadNorm::Cast::before_weight;
    return norm;
  }
  void choose_norms() {
    if (!of_models_ && coin()) spec_.order = PrepareSpec::Order::rotation_first;
    const bool over_all = spec_.order == PrepareSpec::Order::norm_first || !rotates_;
    spec_.q_norm = random_norm(over_all);
    spec_.k_norm = random_norm(over_all);
    if (!is_mla()) spec_.v_norm = random_norm(true);
    if (layout_ == Layout::mla_656 && spec_.k_norm.kind != HeadNorm::Kind::none) spec_.k_norm.width = 512;
    weights_ = pick(4);  // 0: none; 1, 2: one for all heads; 3: one for each
    if (plain_) weights_ = 1;
  }

  void choose_places() {
    const std::int64_t all = batch_ * tokens_;
    block_ = layout_ == Layout::sglang ? 1 : 1 + pick(5);
    blocks_ = all / block_ + 2 + pick(3);
    kind_ = static_cast<TokenPlaces::Kind>(pick(3));
    if (kind_ == TokenPlaces::Kind::in_order) {
      block_ = layout_ == Layout::sglang ? 1 : tokens_ + pick(4);
      if (block_ < tokens_) kind_ = TokenPlaces::Kind::slots;
      blocks_ = std::max(batch_ + pick(2), kind_ == TokenPlaces::Kind::slots ? all : 0);
    }
    slot_list_ = add_list(shuffled(blocks_ * block_, all));
    for (std::int64_t& slot : lists_[slot_list_]) slot = pick(5) == 0 ? -1 : slot;
    // One request per batch row with pages of its own.
    const std::int64_t pages = (tokens_ + block_ - 1) / block_ + 1;
    const bool fits = pages * batch_ <= blocks_;
    if (kind_ == TokenPlaces::Kind::pages && !fits) kind_ = TokenPlaces::Kind::slots;
    pages_ = pages;
    index_list_ = add_list(shuffled(blocks_, std::min(pages * batch_, blocks_)));
    std::vector<std::int64_t> indptr;
    std::vector<std::int64_t> requests;
    std::vector<std::int64_t> places;
    for (std::int64_t b = 0; b <= batch_; ++b) indptr.push_back(b * pages);
    for (std::int64_t i = 0; i < all; ++i) {
      requests.push_back(batch_ - 1 - i / tokens_);
      places.push_back(i % tokens_);
    }
    indptr_list_ = add_list(indptr);
    request_list_ = add_list(requests);
    place_list_ = add_list(places);
    std::vector<std::int64_t> starts;
    for (std::int64_t b = 0; b < batch_; ++b) starts.push_back(pick(std::max<std::int64_t>(block_ - tokens_, 0) + 1));
    start_list_ = add_list(starts);
    std::vector<std::int64_t> specs;
    for (std::int64_t i = 0; i < all; ++i) specs.push_back(pick(static_cast<std::int64_t>(rotaries_.size())));
    spec_list_ = add_list(specs);
    shorter_ = pick(3) == 0 ? 1 : 0;
    packed_pages_ = coin();
    has_starts_ = coin();
  }
  std::vector<std::int64_t> shuffled(std::int64_t n, std::int64_t count) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(n));
    std::iota(list.begin(), list.end(), 0);
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(pick(static_cast<std::int64_t>(i)))]);
    list.resize(static_cast<std::size_t>(std::min(count, n)));
    return list;
  }
  std::size_t add_list(const std::vector<std::int64_t>& list) {
    lists_.push_back(list);
    return lists_.size() - 1;
  }

  const std::int64_t* integers_at(const Pointers& memory, std::size_t list) const {
    std::size_t before = 0;
    for (std::size_t i = 0; i < list; ++i) before += lists_[i].size();
    return reinterpret_cast<const std::int64_t*>(memory[kLists]) + before;
  }
  IntegerList list_of(const Pointers& memory, std::size_t list) const {
    return integers(integers_at(memory, list), static_cast<std::int64_t>(lists_[list].size()));
  }

  static void fill_numbers(std::vector<std::byte>& buffer, DType dtype, Draw& random) {
    const auto size = static_cast<std::size_t>(bytes_of(dtype));
    for (std::size_t i = 0; i + size <= buffer.size(); i += size) {
      const float x = number(random);
      if (dtype == DType::f32) std::memcpy(&buffer[i], &x, 4);
      const std::uint16_t half = dtype == DType::f16 ? Element<Float16>::narrow(x).bits : Element<BFloat16>::narrow(x).bits;
      if (dtype != DType::f32) std::memcpy(&buffer[i], &half, 2);
    }
  }
  void fill_memory() {
    memory_.resize(kBuffers);
    memory_[kPacked].resize(static_cast<std::size_t>(batch_ * tokens_ * row_ * bytes_of(dtype_)));
    memory_[kQ].resize(static_cast<std::size_t>(batch_ * tokens_ * heads_ * q_dim_ * 4 + 64));
    const std::int64_t cache = is_mla() ? blocks_ * block_ * 1200 : blocks_ * block_ * k_heads_ * head_dim_ * 4 * 2;
    memory_[kK].resize(static_cast<std::size_t>(cache + 64));
    memory_[kV].resize(static_cast<std::size_t>(cache + 64));
    memory_[kScales].resize(static_cast<std::size_t>((blocks_ * block_ * k_heads_ * 2 + batch_ * tokens_ * heads_) * 4 * 16 + 64));
    memory_[kWeights].resize(static_cast<std::size_t>((heads_ + 2 * k_heads_) * head_dim_ * 4));
    for (auto& buffer : memory_) {
      for (std::byte& byte : buffer) byte = static_cast<std::byte>(random_.bits());
    }
    fill_numbers(memory_[kPacked], dtype_, random_);
    fill_numbers(memory_[kWeights], weight_dtype(), random_);
    std::vector<float> scales;
    for (std::size_t i = 0; i < memory_[kScales].size() / 4; ++i) scales.push_back(0.01F + std::fabs(number(random_)));
    std::memcpy(memory_[kScales].data(), scales.data(), scales.size() * 4);
    memory_[kFactors].resize(static_cast<std::size_t>(batch_ * tokens_ * 4));
    fill_numbers(memory_[kFactors], DType::f32, random_);
    std::vector<std::int64_t> all;
    for (const auto& list : lists_) all.insert(all.end(), list.begin(), list.end());
    memory_[kLists].resize(all.size() * 8);
    std::memcpy(memory_[kLists].data(), all.data(), all.size() * 8);
  }
  DType weight_dtype() const { return weights_ == 2 ? DType::f32 : dtype_; }

  /// 0: none, 1: one of the tensor, 2: one for each head, 3: made for each token and head.
  void set_scales(CacheView& cache, std::int64_t how, std::byte* scales) const {
    if (how == 0) return;
    if (how == 3 && cache.storage <= Storage::bf16) return;
    cache.scales.kind = how == 3 ? CacheScales::Kind::made : CacheScales::Kind::given;
    cache.scales.use = (batch_ + tokens_) % 2 == 0 ? CacheScales::Use::divide : CacheScales::Use::multiply;
    cache.scales.value = 0.37F;
    if (how > 1) cache.scales.data = scales;
    const std::int64_t heads = cache.shape[3];
    if (how == 2) cache.scales.strides[2] = 1;
    if (how != 3) return;
    const bool whole = of_models_ || tokens_ % 2 == 0;
    cache.scales.group = whole ? 0 : 16;
    const std::int64_t groups = whole ? 1 : (cache.shape[4] * cache.shape[5] + 15) / 16;
    cache.scales.encoding = tokens_ % 3 == 0 ? CacheScales::Encoding::ue8m0 : CacheScales::Encoding::f32;
    cache.scales.strides = {cache.shape[2] * heads * groups, heads * groups, groups, 1};
  }

  PrepareOutputs outputs_of(const Pointers& memory) const {
    PrepareOutputs outputs;
    std::byte* const scales = memory[kScales];
    CacheView q = contiguous_cache(memory[kQ], q_storage_, {batch_, tokens_, heads_, q_dim_});
    set_scales(q, q_scaling_, scales);
    outputs.q = q;
    std::byte* const for_k = scales + (batch_ * tokens_ * heads_ * 16) * 4;
    if (layout_ == Layout::mla_656) {
      outputs.k = mla_656_cache(memory[kK], blocks_, block_);
    } else if (layout_ == Layout::mla_584) {
      outputs.k = mla_584_cache(memory[kK], blocks_, block_, block_ % 2 == 0 ? 0 : block_ * 600);
    } else {
      CachePair pair = pair_of(memory);
      set_scales(pair.k, k_scaling_, for_k);
      set_scales(pair.v, k_scaling_, for_k + blocks_ * block_ * k_heads_ * 16 * 4);
      outputs.k = pair.k;
      outputs.v = pair.v;
    }
    return outputs;
  }
  CachePair pair_of(const Pointers& memory) const {
    const CacheShape shape = {blocks_, block_, k_heads_, head_dim_};
    void* const k = memory[kK];
    switch (layout_) {
      case Layout::vllm:
        return {vllm_key_cache(k, k_storage_, shape), vllm_value_cache(memory[kV], v_storage_, shape)};
      case Layout::flash:
        return vllm_flash_cache(k, k_storage_, shape);
      case Layout::nhd:
        return flashinfer_cache(k, k_storage_, shape, HeadOrder::nhd);
      case Layout::hnd:
        return flashinfer_cache(k, k_storage_, shape, HeadOrder::hnd);
      case Layout::sglang:
        return {sglang_cache(k, k_storage_, blocks_, k_heads_, head_dim_),
                sglang_cache(memory[kV], v_storage_, blocks_, k_heads_, head_dim_)};
      default:
        return {contiguous_cache(k, k_storage_, shape), contiguous_cache(memory[kV], v_storage_, shape)};
    }
  }

  TokenPlaces places_of(const Pointers& memory) const {
    TokenPlaces places;
    places.kind = kind_;
    if (kind_ == TokenPlaces::Kind::in_order && has_starts_) places.starts = list_of(memory, start_list_);
    if (kind_ == TokenPlaces::Kind::slots) {
      places.slots = list_of(memory, slot_list_);
      places.slots.size -= shorter_;
    }
    if (kind_ == TokenPlaces::Kind::pages) {
      places.indices = list_of(memory, index_list_);
      places.places = list_of(memory, place_list_);
      places.requests = list_of(memory, request_list_);
      places.pages_per_request = pages_;
      if (packed_pages_) places.indptr = list_of(memory, indptr_list_);
    }
    return places;
  }

  void set_weights(const Pointers& memory, const PrepareInputs& inputs, PrepareSpec& spec) const {
    if (weights_ == 0) return;
    std::int64_t before = 0;
    for (const auto& [norm, in] :
         {std::pair<HeadNorm*, const ConstTensorView*>{&spec.q_norm, &inputs.q}, {&spec.k_norm, &inputs.k}, {&spec.v_norm, &inputs.v}}) {
      if (norm->kind == HeadNorm::Kind::none) continue;
      const std::int64_t width = norm->width == 0 ? in->shape[3] : norm->width;
      const std::int64_t heads = weights_ == 3 ? in->shape[2] : 1;
      norm->weight =
          ConstTensorView(memory[kWeights] + before * bytes_of(weight_dtype()), weight_dtype(), {1, 1, heads, width}, {0, 0, width, 1});
      before += heads * width;
    }
  }

  Draw random_;
  bool of_models_ = false;
  bool plain_ = false;
  Layout layout_ = Layout::contiguous;
  DType dtype_ = DType::f32;
  std::int64_t batch_ = 1, tokens_ = 1, heads_ = 1, k_heads_ = 1, head_dim_ = 16, q_dim_ = 16, extra_ = 0, row_ = 0;
  Storage q_storage_ = Storage::f32, k_storage_ = Storage::f32, v_storage_ = Storage::f32;
  std::int64_t k_scaling_ = 0, q_scaling_ = 0, offset_ = 0, weights_ = 0, block_ = 1, blocks_ = 1, pages_ = 1, shorter_ = 0;
  bool rotates_ = true, by_token_ = false, has_factors_ = false, packed_pages_ = false, has_starts_ = false;
  PrepareSpec spec_;
  std::vector<Rotary> rotaries_;
  TokenPlaces::Kind kind_ = TokenPlaces::Kind::in_order;
  std::vector<std::vector<std::int64_t>> lists_;
  std::size_t slot_list_ = 0, index_list_ = 0, indptr_list_ = 0, request_list_ = 0, place_list_ = 0, start_list_ = 0, spec_list_ = 0;
  Memory8 memory_;
};

}  // namespace phasor::test
