// SPDX-License-Identifier: Apache-2.0
// Random calls of prepare_attention: every dtype, storage, layout, norm, scale and way to places, with awkward shapes. A call is its memory
// (buffers that are full of odd bytes) and a way to make its views, so that it can run several times on copies.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "prepare/prepare_choices.hpp"
#include "reference.hpp"

namespace phasor::test {

using reference::Element;
using Memory8 = std::vector<std::vector<std::byte>>;
/// Whoever runs it.
using RunPrepare = std::function<Status(const PrepareInputs&, const PrepareRotation&, const PrepareOutputs&, const PrepareSpec&)>;

class RandomPrepare : private PrepareChoices {
 public:
  enum Buffer { kPacked, kQ, kK, kV, kScales, kWeights, kLists, kFactors, kTables, kPositions, kBuffers };

  explicit RandomPrepare(std::uint64_t seed, CallsOf calls = CallsOf::any, SizeOf size = SizeOf::any) : PrepareChoices(seed, calls, size) {
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
    if (has_no_values()) {
      inputs.v = {};
      inputs.q.shape[3] = q_dim_;  // as if part of each head were not q's
    }
    if (has_factors_) inputs.query_factors = ConstTensorView(memory[kFactors], DType::f32, {batch_, tokens_, 1, 1}, {tokens_, 1, 1, 1});
    PrepareOutputs outputs = outputs_of(memory);
    outputs.places = places_of(memory);
    PrepareSpec spec = spec_;
    set_weights(memory, inputs, spec);
    PrepareRotation rotation;
    if (rotates_) rotation = {rotaries_, positions_, {}};
    if (rotates_ && !position_bytes_.empty()) {
      rotation.positions.data = memory[kPositions];
      rotation.positions.device = device;
    }
    if (rotaries_.size() > 1 && rotates_) {
      rotation.spec_of = list_of(memory, spec_list_);
      if (!by_token_) rotation.spec_of.size = batch_;
    }
    if (tables_.are_given()) rotation = tables_.rotation(memory[kTables], device);
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

  /// Where results differ at all, every NaN becomes the same one: a machine may give it any bits. Not of values that are copied.
  void forget_nans(Memory8& a, Memory8& b) const {
    if (a == b) return;
    for (Memory8* const memory : {&a, &b}) {
      (void)run(*memory, [this](const PrepareInputs&, const PrepareRotation&, const PrepareOutputs& outputs, const PrepareSpec&) {
        for (const CacheParts* const out : {&outputs.q, &outputs.k, &outputs.v}) {
          const bool is_copied = out == &outputs.v && spec_.v_norm.kind == HeadNorm::Kind::none && bytes_of(v_storage_) != 1;
          for (int part = 0; part < out->count && !is_copied; ++part) forget_nans(out->parts[static_cast<std::size_t>(part)]);
        }
        return Status();
      });
    }
  }

 private:
  /// In [-4, 4).
  static float number(Draw& random) { return static_cast<float>(8 * random.real() - 4); }
  /// What ends at the edges of some format, or is no number.
  float odd_number(Draw& random) const {
    const float x = random.of({INFINITY, NAN, 1e-40F, 3e-6F, 0x1p-133F, 0.0F, 1.0F, 3e38F, 65504.0F, 448.0F, 464.0F, 480.0F, 57344.0F,
                               61440.0F, 127.5F, 128.5F, 448 * scale_value_, 127 / scale_value_});
    return random.one_in(2) ? -x : x;
  }

  IntegerList list_of(const Pointers& memory, std::size_t list) const {
    std::size_t before = 0;
    for (std::size_t i = 0; i < list; ++i) before += lists_[i].size();
    return {memory[kLists] + before * 8, list_types_[list], static_cast<std::int64_t>(lists_[list].size())};
  }

  template <class Bits>
  static void forget_nan(void* element, unsigned infinity) {
    constexpr unsigned kMagnitude = static_cast<Bits>(-1) >> 1;
    Bits bits;
    std::memcpy(&bits, element, sizeof bits);
    if ((bits & kMagnitude) > infinity) bits = static_cast<Bits>(kMagnitude);
    std::memcpy(element, &bits, sizeof bits);
  }
  static void forget_nans(const CacheView& cache) {
    CacheExtents at = {cache.layer, 0, 0, 0, 0, 0};
    for (bool more = true; more;) {
      std::int64_t element = 0;
      for (std::size_t axis = 0; axis < kCacheAxes; ++axis) element += at[axis] * cache.strides[axis];
      std::byte* const to = static_cast<std::byte*>(cache.data) + element * bytes_of(cache.storage);
      if (cache.storage == Storage::f32) forget_nan<std::uint32_t>(to, 0x7f800000);
      if (cache.storage == Storage::f16) forget_nan<std::uint16_t>(to, 0x7c00);
      if (cache.storage == Storage::bf16) forget_nan<std::uint16_t>(to, 0x7f80);
      if (cache.storage == Storage::f8_e4m3) forget_nan<std::uint8_t>(to, 0x7e);
      if (cache.storage == Storage::f8_e5m2) forget_nan<std::uint8_t>(to, 0x7c);
      std::size_t axis = kCacheAxes - 1;
      while (axis > 0 && ++at[axis] == cache.shape[axis]) at[axis--] = 0;
      more = axis > 0;
    }
  }

  void fill_numbers(std::vector<std::byte>& buffer, DType dtype, Draw& random) const {
    const auto size = static_cast<std::size_t>(bytes_of(dtype));
    for (std::size_t i = 0; i + size <= buffer.size(); i += size) {
      const float x = odd_one_in_ != 0 && random.one_in(odd_one_in_) ? odd_number(random) : number(random);
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
    const std::int64_t scaled_heads = blocks_ * block_ * k_heads_ * 2 + batch_ * tokens_ * heads_;
    memory_[kScales].resize(static_cast<std::size_t>(scaled_heads * 4 * most_groups_ + 64));
    memory_[kWeights].resize(static_cast<std::size_t>((heads_ + 2 * k_heads_) * head_dim_ * 4));
    for (auto& buffer : memory_) {
      for (std::byte& byte : buffer) byte = static_cast<std::byte>(random_.bits());
    }
    fill_numbers(memory_[kPacked], dtype_, random_);
    fill_numbers(memory_[kWeights], weight_dtype(), random_);
    std::vector<float> scales;
    for (std::size_t i = 0; i < memory_[kScales].size() / 4; ++i) scales.push_back(any_scale());
    std::memcpy(memory_[kScales].data(), scales.data(), scales.size() * 4);
    memory_[kFactors].resize(static_cast<std::size_t>(batch_ * tokens_ * 4));
    fill_numbers(memory_[kFactors], DType::f32, random_);
    memory_[kTables] = tables_.bytes();
    memory_[kPositions] = position_bytes_;
    for (std::size_t i = 0; i < lists_.size(); ++i) add_list_bytes(lists_[i], list_types_[i]);
  }
  /// Eight bytes for each integer, whatever their size.
  void add_list_bytes(const std::vector<std::int64_t>& list, PositionType type) {
    std::vector<std::byte>& all = memory_[kLists];
    const std::size_t before = all.size();
    all.resize(before + list.size() * 8);
    if (list.empty()) return;
    const std::vector<std::int32_t> narrow(list.begin(), list.end());
    if (type == PositionType::i32) std::memcpy(&all[before], narrow.data(), narrow.size() * 4);
    if (type == PositionType::i64) std::memcpy(&all[before], list.data(), list.size() * 8);
  }
  DType weight_dtype() const { return weights_ == 2 ? DType::f32 : dtype_; }

  /// `how` as of k_scaling_.
  void set_scales(CacheView& cache, std::int64_t how, std::byte* scales) const {
    if (how == 0) return;
    if (how == 3 && cache.storage <= Storage::bf16) return;
    cache.scales.kind = how == 3 ? CacheScales::Kind::made : CacheScales::Kind::given;
    cache.scales.use = scale_use_;
    cache.scales.value = scale_value_;
    if (how > 1) cache.scales.data = scales;
    const std::int64_t heads = cache.shape[3];
    if (how == 2) cache.scales.strides[2] = 1;
    if (how != 3) return;
    cache.scales.group = group_;
    cache.scales.encoding = scale_encoding_;
    cache.scales.strides = {cache.shape[2] * heads * most_groups_, heads * most_groups_, most_groups_, 1};
  }
  /// Scales where MLA's layouts have them, made of other groups (the last one shorter) or for other numbers, or given ones; or made ones
  /// for what is rotated, too, in other memory.
  void change_mla(CacheParts& parts, std::byte* scales) const {
    CacheView& cache = parts.parts[0];
    cache.storage = static_cast<Storage>(3 + (batch_ + tokens_) % 3);
    cache.scales.use = scale_use_;
    if (k_scaling_ == 3) cache.scales.group = layout_ == Layout::mla_656 ? 136 : 72 + 56 * (tokens_ % 2);
    if (k_scaling_ == 1) {
      cache.scales.kind = CacheScales::Kind::given;
      cache.scales.data = nullptr;
      cache.scales.value = scale_value_;
    }
    if (k_scaling_ != 2) return;
    CacheView& rotated = parts.parts[1];
    for (std::int64_t& stride : rotated.strides) stride *= 2;  // elements of two bytes are bytes
    rotated.strides.back() = 1;
    rotated.storage = Storage::f8_e4m3;
    rotated.scales = {.kind = CacheScales::Kind::made, .data = scales, .strides = {2 * block_, 2, 2, 1}, .group = 40};
  }

  PrepareOutputs outputs_of(const Pointers& memory) const {
    PrepareOutputs outputs;
    std::byte* const scales = memory[kScales];
    CacheView q = contiguous_cache(memory[kQ], q_storage_, {batch_, tokens_, heads_, q_dim_});
    set_scales(q, q_scaling_, scales);
    outputs.q = q;
    std::byte* const for_k = scales + (batch_ * tokens_ * heads_ * most_groups_) * 4;
    if (layout_ == Layout::mla_656) {
      outputs.k = mla_656_cache(memory[kK], blocks_, block_);
    } else if (layout_ == Layout::mla_584) {
      outputs.k = mla_584_cache(memory[kK], blocks_, block_, block_ % 2 == 0 ? 0 : block_ * 600);
    } else {
      CachePair pair = pair_of(memory);
      set_scales(pair.k, k_scaling_, for_k);
      set_scales(pair.v, k_scaling_, for_k + blocks_ * block_ * k_heads_ * most_groups_ * 4);
      outputs.k = pair.k;
      if (!has_no_values()) outputs.v = pair.v;
    }
    if (is_mla() && changes_mla_) change_mla(outputs.k, for_k);
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

  Memory8 memory_;
};

}  // namespace phasor::test
