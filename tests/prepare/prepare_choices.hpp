// SPDX-License-Identifier: Apache-2.0
// What a random call of prepare_attention is: its shapes, storages, layouts, specs, norms and places, drawn one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/random_memory.hpp"
#include "cuda/random_specs.hpp"
#include "cuda/random_tables.hpp"
#include "phasor/prepare.hpp"

namespace phasor::test {

/// Which calls are drawn: any; those with the heads, norms and rotations of common models, which CUDA has kernels of its own for; the most
/// common of those, which have more of them, with many tokens, too; those of MLA, whose k is one wide head; plain ones into vLLM's older
/// layout, whose values lie by channels, at slots that are neighbours for a while.
enum class CallsOf : std::uint8_t { any, models, plain, latent, columns, plain_latent };
/// small: few heads, and no more tokens than it takes.
enum class SizeOf : std::uint8_t { any, small };

class PrepareChoices {
 public:
  enum class Layout : std::uint8_t { contiguous, vllm, flash, nhd, hnd, sglang, mla_656, mla_584 };

  PrepareChoices(std::uint64_t seed, CallsOf calls, SizeOf size)
      : random_(seed),
        of_models_(calls != CallsOf::any),
        plain_(calls == CallsOf::plain || calls == CallsOf::columns),
        latent_(calls == CallsOf::latent || calls == CallsOf::plain_latent),
        plain_latent_(calls == CallsOf::plain_latent),
        columns_(calls == CallsOf::columns),
        small_(size == SizeOf::small) {
    layout_ = static_cast<Layout>(pick(of_models_ && !latent_ ? 6 : 8));
    if (plain_ && layout_ == Layout::vllm) layout_ = Layout::flash;
    if (columns_) layout_ = Layout::vllm;
    if (latent_ && coin()) layout_ = coin() ? Layout::contiguous : Layout::vllm;
    if (latent_ && pick(3) == 0) layout_ = coin() ? Layout::mla_656 : Layout::mla_584;
    if (plain_latent_) layout_ = coin() ? Layout::contiguous : Layout::mla_656;
    dtype_ = static_cast<DType>(std::array{0, 2, 3}[static_cast<std::size_t>(pick(3))]);
    if (latent_) dtype_ = coin() && !is_mla() ? DType::f16 : DType::bf16;  // what is rotated lies in MLA's rows as bfloat16
    batch_ = 1 + pick(3);
    tokens_ = 1 + pick(9);
    if (plain_) dtype_ = coin() ? DType::f16 : DType::bf16;
    if (plain_ && pick(6) == 0) tokens_ = 520 + pick(30);
    if (plain_ && pick(40) == 0) {  // as many as make a GPU's blocks walk
      tokens_ = 4200 + pick(50);    // of up to 175 multiprocessors
      batch_ = 1;
    }
    if (columns_ && tokens_ < 100) tokens_ = 1 + pick(90);
    if (latent_ && pick(40) == 0) tokens_ = 690 + pick(40);
    if (plain_latent_ && pick(40) == 0) {  // as many as warps have whole
      tokens_ = 4200 + pick(50);
      batch_ = 1;
    }
    if (small_) batch_ = 1;
    if (small_) tokens_ = columns_ ? 33 + pick(20) : 1 + pick(5);
    choose_heads();
    choose_scales();
    choose_specs();
    choose_norms();
    choose_places();
  }

  std::int64_t all_tokens() const { return batch_ * tokens_; }
  /// Plain, of two heads a thread, and so many tokens that a GPU's blocks walk.
  bool walks_on_gpu() const {
    const bool whole = position_bytes_.empty() || positions_.type != PositionType::f64;
    return plain_ && whole && tokens_ >= 4200 && kind_ == TokenPlaces::Kind::pages && heads_ % 2 == 0 && k_heads_ % 2 == 0;
  }

 protected:
  std::int64_t pick(std::int64_t n) { return static_cast<std::int64_t>(random_.bits() % static_cast<std::uint64_t>(n)); }
  bool coin() { return pick(2) == 0; }
  /// Ordinary ones, powers of two, those whose digits are all ones, and any.
  float any_scale() {
    const auto power = [&](std::int64_t n) { return std::ldexp(1.0F, static_cast<int>(pick(2 * n) - n)); };
    switch (pick(6)) {
      case 0:
        return power(8);
      case 1:
        return std::nextafter(power(8), 0.0F);
      case 2:
        return power(80) * static_cast<float>(1 + random_.real());
      default:
        return 0.01F + 4 * static_cast<float>(random_.real());
    }
  }
  bool is_mla() const { return layout_ == Layout::mla_656 || layout_ == Layout::mla_584; }
  /// One head is key and value.
  bool has_no_values() const { return is_mla() || plain_latent_; }

  Draw random_;
  bool of_models_;
  bool plain_;
  bool latent_;
  bool plain_latent_;
  bool columns_;
  bool small_;
  Layout layout_ = Layout::contiguous;
  DType dtype_ = DType::f32;
  std::int64_t batch_ = 1, tokens_ = 1, heads_ = 1, k_heads_ = 1, head_dim_ = 16, q_dim_ = 16, extra_ = 0, row_ = 0;
  Storage q_storage_ = Storage::f32, k_storage_ = Storage::f32, v_storage_ = Storage::f32;
  std::int64_t k_scaling_ = 0, q_scaling_ = 0, group_ = 0, most_groups_ = 1, weights_ = 0, block_ = 1, blocks_ = 1, pages_ = 1,
               shorter_ = 0;
  CacheScales::Use scale_use_ = CacheScales::Use::divide;
  CacheScales::Encoding scale_encoding_ = CacheScales::Encoding::f32;
  float scale_value_ = 1;
  bool changes_mla_ = false;     // the first part of MLA's mixed rows has other scales, or another storage, than its layout
  std::int64_t odd_one_in_ = 0;  // numbers; 0: none
  bool rotates_ = true, by_token_ = false, has_factors_ = false, packed_pages_ = false, has_starts_ = false;
  Positions positions_;  // `data` null with tokens: they lie in position_bytes_
  std::vector<std::byte> position_bytes_;
  PrepareSpec spec_;
  std::vector<Rotary> rotaries_;
  RandomTables tables_;  // in the place of rotaries
  TokenPlaces::Kind kind_ = TokenPlaces::Kind::in_order;
  std::vector<std::vector<std::int64_t>> lists_;
  std::vector<PositionType> list_types_;
  std::size_t slot_list_ = 0, index_list_ = 0, indptr_list_ = 0, request_list_ = 0, place_list_ = 0, start_list_ = 0, spec_list_ = 0;

 private:
  void choose_heads() {
    heads_ = 1 + pick(5);
    k_heads_ = 1 + pick(3);
    head_dim_ = std::array<std::int64_t, 6>{16, 32, 48, 64, 80, 128}[static_cast<std::size_t>(pick(6))];
    if (of_models_) head_dim_ = std::array<std::int64_t, 3>{64, 128, 256}[static_cast<std::size_t>(pick(3))];
    if (of_models_) heads_ = 1 + pick(small_ ? 4 : 40);
    q_dim_ = head_dim_;
    if (is_mla()) {
      k_heads_ = 1;
      head_dim_ = layout_ == Layout::mla_656 ? 576 : 512;
      q_dim_ = 192;
      heads_ = 1 + pick(2);
    }
    if (latent_) {
      k_heads_ = 1;
      if (!is_mla()) head_dim_ = q_dim_ = std::array<std::int64_t, 4>{576, 512, 80, 1024}[static_cast<std::size_t>(pick(4))];
    }
    extra_ = pick(3) * head_dim_;
    if (latent_ && tokens_ > 100) heads_ = 1 + pick(2);
    row_ = extra_ + (heads_ + 2 * k_heads_) * head_dim_ + pick(2) * head_dim_;
    const auto any = [&] { return static_cast<Storage>(pick(6)); };
    k_storage_ = any();
    v_storage_ = layout_ == Layout::contiguous || layout_ == Layout::vllm ? any() : k_storage_;
    q_storage_ = coin() ? static_cast<Storage>(std::array{0, 0, 1, 2}[static_cast<std::size_t>(dtype_)]) : any();
    const auto own = static_cast<Storage>(std::array{0, 0, 1, 2}[static_cast<std::size_t>(dtype_)]);
    const auto of_model = [&] { return coin() ? own : static_cast<Storage>(3 + pick(3)); };
    if (of_models_) k_storage_ = v_storage_ = of_model();
    if (of_models_) q_storage_ = of_model();
    k_scaling_ = pick(4);  // 0: none, 1: one of the tensor, 2: one for each head, 3: made for each token, head and group
    q_scaling_ = pick(4);
    if (latent_ && coin()) k_scaling_ = 3;
    changes_mla_ = pick(3) == 0;
    if (latent_) v_storage_ = q_storage_ = own;
    if (latent_ && layout_ != Layout::contiguous && layout_ != Layout::vllm) k_storage_ = own;
    if (latent_) q_scaling_ = 0;
    if (latent_ && !is_mla() && k_storage_ == own) k_scaling_ = 0;
    if (plain_latent_) {
      head_dim_ = 576;
      q_dim_ = 64;
      if (!small_ && tokens_ <= 100) heads_ = 1 + pick(42);
      row_ = (heads_ + 2) * head_dim_;
      extra_ = 0;
      k_storage_ = own;
      k_scaling_ = 0;
      changes_mla_ = false;
    }
    if (!plain_) return;
    head_dim_ = q_dim_ = 128;
    if (tokens_ > 100) heads_ = 1 + pick(6);
    if (coin() || small_) k_heads_ = 2;
    if (coin() || small_) heads_ += heads_ % 2;
    row_ = (heads_ + 2 * k_heads_ + pick(2)) * head_dim_;
    extra_ = 0;
    q_storage_ = coin() ? own : Storage::f8_e4m3;
    k_storage_ = v_storage_ = coin() ? own : Storage::f8_e4m3;
    k_scaling_ = k_storage_ == own ? 0 : pick(2);
    q_scaling_ = q_storage_ == own ? 0 : pick(2);
  }

  void choose_scales() {
    scale_value_ = any_scale();
    scale_use_ = coin() ? CacheScales::Use::divide : CacheScales::Use::multiply;
    scale_encoding_ = pick(3) == 0 ? CacheScales::Encoding::ue8m0 : CacheScales::Encoding::f32;
    if (pick(5) == 0) odd_one_in_ = random_.of({30, 1000});
    // Squads make scales of whole heads, MLA's kernels of whole vectors.
    if (!of_models_ && coin()) group_ = random_.of<std::int64_t>({5, 16, 24});
    if (latent_ && pick(4) != 0) group_ = 8 * (1 + pick(20));
    if (group_ != 0) most_groups_ = (std::max(head_dim_, q_dim_) + group_ - 1) / group_;
  }

  /// Positions of several axes, as images and videos have them; the sections need not be alike.
  void add_axes(RotarySpec& spec, bool one_spec) {
    const std::int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
    const std::int64_t axes = 2 + pick(2);
    if (pick(3) != 0 || pairs < axes) return;
    RotarySpec with = spec;
    with.axes.order = coin() ? AxisOrder::chunked : AxisOrder::interleaved;
    with.axes.sections.assign(static_cast<std::size_t>(axes), 1 + pick(pairs / axes));
    with.axes.sections[0] = pairs - (axes - 1) * with.axes.sections[1];
    if (one_spec && std::holds_alternative<Unscaled>(spec.scaling) && coin()) with.axes.ladder = AxisLadder::own;
    if (Rotary::make(with).ok()) spec = with;
  }
  /// One after the other from somewhere on, or a tensor of any type, of each axis or of one, with strides of 0 here and there.
  void choose_positions(const RotarySpec& spec) {
    positions_ = {.offset = pick(3) == 0 ? 0 : pick(100000)};
    if (coin()) return;
    const auto axes = static_cast<std::int64_t>(std::max<std::size_t>(spec.axes.sections.size(), 1));
    const bool whole = of_models_ && pick(8) != 0;  // kernels of their own are for whole positions
    PlacedPositions placed;
    do {
      position_bytes_.clear();
      Builder builder(random_);
      placed = any_positions(random_, builder, axes, batch_, tokens_);
      if (placed.buffer) position_bytes_ = builder.buffers[*placed.buffer];
    } while (whole && placed.buffer && placed.type == PositionType::f64);
    positions_ = placed.at(std::vector<std::byte*>(1), {});
    for (std::int64_t& stride : positions_.strides) stride = placed.buffer && pick(6) == 0 ? 0 : stride;
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
    spec.pairing = coin() && !latent_ ? Pairing::half : Pairing::interleaved;
    if (latent_ && !is_mla()) {
      spec.rotary_width = 8 * (1 + pick(std::min<std::int64_t>(head_dim_ / 8, 16)));
      spec.rotary_offset = 8 * pick((head_dim_ - spec.rotary_width) / 8 + 1);
    } else if (of_models_ && !latent_) {
      spec.rotary_width = coin() ? head_dim_ : 64;
      spec.rotary_offset = spec.pairing == Pairing::half ? 0 : pick((head_dim_ - spec.rotary_width) / 8 + 1) * 8;
      if (pick(3) == 0) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};
    }
    if (plain_) {
      rotates_ = true;
      spec.pairing = Pairing::half;
      spec.rotary_width = spec.rotary_offset = 0;
    }
    if (plain_latent_) {
      rotates_ = true;
      spec.rotary_width = 64;
      spec.rotary_offset = 512;
      spec_.q_rotary_offset = 0;
      if (coin()) spec.scaling = YarnScaling{.factor = 40, .original_length = 4096};
    }
    if (!of_models_ && pick(4) == 0) spec.output_pairing = coin() ? Pairing::half : Pairing::interleaved;
    if (pick(8) == 0) spec.sense = Sense::clockwise;
    const std::int64_t specs = of_models_ ? 1 : 1 + pick(3);
    if (!plain_latent_) add_axes(spec, specs == 1);
    choose_positions(spec);
    for (std::int64_t s = 0; s < specs; ++s) {
      spec.base = std::array{10000.0, 500000.0, 100.0}[static_cast<std::size_t>(s)];
      if (s == 2) spec.scaling = LinearScaling{.factor = 4};
      rotaries_.push_back(*Rotary::make(spec));
    }
    if (rotates_ && !plain_ && !plain_latent_ && pick(4) == 0) {
      const std::int64_t own_heads = heads_ == k_heads_ ? heads_ : 0;
      tables_ = RandomTables(random_, spec, {batch_, tokens_, own_heads, dtype_, of_models_});
    }
    by_token_ = coin();
    if (coin()) spec_.between = PrepareSpec::Between::kept;
    if (coin()) spec_.query_scale = 0.3F;
    has_factors_ = pick(3) == 0;
    if (!plain_ && !plain_latent_) return;
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
    if (!plain_ && !plain_latent_) return norm;
    norm.kind = HeadNorm::Kind::rms;
    norm.weight_as = {};
    norm.cast = HeadNorm::Cast::before_weight;
    return norm;
  }
  void choose_norms() {
    if (!of_models_ && coin()) spec_.order = PrepareSpec::Order::rotation_first;
    const bool over_all = spec_.order == PrepareSpec::Order::norm_first || !rotates_;
    spec_.q_norm = random_norm(over_all);
    spec_.k_norm = random_norm(over_all);
    if (!is_mla()) spec_.v_norm = random_norm(true);
    if (of_models_ && pick(4) == 0) spec_.q_norm = spec_.k_norm = spec_.v_norm = {};
    if (columns_) spec_.v_norm = {};
    if (layout_ == Layout::mla_656 && spec_.k_norm.kind != HeadNorm::Kind::none) spec_.k_norm.width = 512;
    if (latent_) spec_.q_norm = spec_.v_norm = {};
    if (latent_ && spec_.k_norm.kind != HeadNorm::Kind::none && coin()) spec_.k_norm.width = 8 * (1 + pick(head_dim_ / 8));
    if (plain_latent_ && spec_.k_norm.kind != HeadNorm::Kind::none) spec_.k_norm.width = 512;
    weights_ = pick(4);  // 0: none; 1, 2: one for all heads; 3: one for each
    if (plain_ || plain_latent_) weights_ = 1;
  }

  void choose_places() {
    const std::int64_t all = batch_ * tokens_;
    block_ = layout_ == Layout::sglang ? 1 : 1 + pick(5);
    if (columns_) block_ = 8 * (1 + pick(4));
    if (plain_latent_) block_ = std::int64_t{1} << pick(4);
    blocks_ = all / block_ + 2 + pick(3);
    kind_ = static_cast<TokenPlaces::Kind>(pick(3));
    if ((columns_ || plain_latent_) && kind_ == TokenPlaces::Kind::in_order) kind_ = TokenPlaces::Kind::slots;
    if (kind_ == TokenPlaces::Kind::in_order) {
      block_ = layout_ == Layout::sglang ? 1 : tokens_ + pick(4);
      if (block_ < tokens_) kind_ = TokenPlaces::Kind::slots;
      blocks_ = std::max(batch_ + pick(2), kind_ == TokenPlaces::Kind::slots ? all : 0);
    }
    slot_list_ = add_list(columns_ ? runs_of_slots(blocks_ * block_, all) : shuffled(blocks_ * block_, all));
    for (std::int64_t& slot : lists_[slot_list_]) slot = pick(columns_ ? 40 : 5) == 0 ? -1 : slot;
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
  /// One after the other from somewhere on, and round the end; two tokens here and there are exchanged.
  std::vector<std::int64_t> runs_of_slots(std::int64_t n, std::int64_t count) {
    std::vector<std::int64_t> list;
    const std::int64_t first = coin() ? 8 * pick(n / 8) : pick(n);
    for (std::int64_t i = 0; i < count; ++i) list.push_back((first + i) % n);
    for (std::int64_t i = 0; i < count / 50; ++i) {
      std::swap(list[static_cast<std::size_t>(pick(count))], list[static_cast<std::size_t>(pick(count))]);
    }
    return list;
  }
  std::size_t add_list(const std::vector<std::int64_t>& list) {
    lists_.push_back(list);
    list_types_.push_back(coin() ? PositionType::i32 : PositionType::i64);
    return lists_.size() - 1;
  }
};

}  // namespace phasor::test
