// SPDX-License-Identifier: Apache-2.0
// A token of MLA made ready by a block: the steps and their roundings are those of job/prepare/token.hpp. Written for any executor of a
// block, as squads/make.hpp; tests run it on the host.
#pragma once

#include "cuda/prepare/latent/shape.hpp"

namespace phasor::cuda {

/// Eight channels of a head.
template <DType dtype>
struct VectorOfHead {
  static constexpr int kWidth = Squad<dtype>::kWidth;
  float x[kWidth];

  PHASOR_HD void widen(const Words& words) {
    unrolled<2>([&](auto part) {
      EightBytes<dtype> values;
      values.read(words.at[2 * part], words.at[2 * part + 1]);
      unrolled<kWidth / 2>([&](auto i) { x[part * kWidth / 2 + i] = values.at[i]; });
    });
  }
  PHASOR_HD void round() {
    unrolled<kWidth / 2>([&](auto i) { round_two<dtype>(x[2 * i], x[2 * i + 1]); });
  }
  PHASOR_HD void multiply(float factor) {
    unrolled<kWidth>([&](auto i) { x[i] = x[i] * factor; });
  }
  /// Neighbouring pairs; one that rests is left bit for bit.
  PHASOR_HD void turn_pairs(const CosSin<float>* values) {
    unrolled<kWidth / 2>([&](auto i) {
      if (!math::is_identity(values[i].cos, values[i].sin)) turn(x[2 * i], x[2 * i + 1], values[i]);
    });
  }
  /// A NaN is none.
  PHASOR_HD float largest() const {
    float most = 0;
    unrolled<kWidth>([&](auto i) {
      const float magnitude = x[i] < 0 ? -x[i] : x[i];
      most = magnitude > most ? magnitude : most;
    });
    return most;
  }
};

template <DType dtype>
struct LatentMaker {
  using Vector = VectorOfHead<dtype>;
  using Token = SquadMaker<dtype, Pairing::interleaved, 2, false>;  // what is of a token: its place, its row
  static constexpr int kWidth = Vector::kWidth;
  /// Of a thread.
  struct Held {
    Words latent;
    Words other;
    Vector x;  // the latent's
  };
  /// One of the others' vectors; operand -1: none.
  struct Spot {
    int operand;
    int head;
    int vector;
  };

  const LatentShape& latent;
  Token token;
  LatentShared& shared;

  PHASOR_HD const SquadOperand& wide() const { return operand(latent.operand); }
  PHASOR_HD const SquadOperand& operand(int number) const { return token.work.shape().operands[number]; }
  PHASOR_HD bool has_latent(int thread) const { return token.place.first_head == 0 && thread < latent.vectors; }
  PHASOR_HD bool norms() const { return token.place.first_head == 0 && wide().norm != HeadNorm::Kind::none; }
  PHASOR_HD Spot spot_of(int thread) const {
    const int number = token.place.first_head + thread;
    for (int o = 0; o < job::kPrepareOperands; ++o) {
      const int before = o == 0 ? 0 : latent.ends[o - 1];
      if (number >= latent.ends[o]) continue;
      const unsigned inside = static_cast<unsigned>(number - before);
      const unsigned of_head = static_cast<unsigned>(latent.of_head[o]);
      return {o, static_cast<int>(inside / of_head), static_cast<int>(inside % of_head)};
    }
    return {-1, 0, 0};
  }
  PHASOR_HD Words load(const SquadOperand& from, int head, int vector) const {
    const math::u64 before = math::u64{static_cast<unsigned>(token.place.batch)} * from.in_batch +
                             math::u64{static_cast<unsigned>(token.place.token)} * from.in_token + static_cast<unsigned>(vector);
    return load_words<false>(from.in + before * sizeof(Words) + int64_t{head} * from.in_head);
  }

  PHASOR_HD void load(int thread, Held& held) const {
    const Spot spot = spot_of(thread);
    held.latent = held.other = Words{};
    if (has_latent(thread)) held.latent = load(wide(), 0, thread);
    if (spot.operand >= 0) held.other = load(operand(spot.operand), spot.head, spot.vector);
  }
  PHASOR_HD void share(int thread, const Held& held) const {
    if (has_latent(thread)) shared.row[thread] = held.latent;
  }

  // ---- The wide head ----

  PHASOR_HD std::uint16_t channel(int c) const { return static_cast<std::uint16_t>(shared.row[c / 8].at[c % 8 / 2] >> 16 * (c & 1)); }

  /// The norm's partial sums, a thread each.
  PHASOR_HD void add_squares(int thread) const {
    if (!norms() || thread >= math::kNormPartials) return;
    const auto width = static_cast<int>(token.work.job().operands[latent.operand].norm.width);
    float sum = 0;
    for (int c = thread; c < width; c += math::kNormPartials) {
      const float x = Element<dtype>::widen(channel(c));
      sum += x * x;
    }
    shared.sums[thread] = sum;
  }
  /// math::fold_partials, with indices that are known.
  PHASOR_HD float folded() const {
    constexpr int kHalf = math::kNormPartials / 2;
    float sums[kHalf];
    unrolled<kHalf>([&](auto i) { sums[i] = shared.sums[i] + shared.sums[i + kHalf]; });
    unrolled<kHalf / 2>([&](auto i) { sums[i] += sums[i + kHalf / 2]; });
    unrolled<kHalf / 4>([&](auto i) { sums[i] += sums[i + kHalf / 4]; });
    unrolled<kHalf / 8>([&](auto i) { sums[i] += sums[i + kHalf / 8]; });
    return sums[0] + sums[1];
  }
  PHASOR_HD void norm(int channel, Vector& x) const {
    const SquadOperand& of = wide();
    const job::PrepareNorm& norm = token.work.job().operands[latent.operand].norm;
    x.multiply(job::norm_factor(norm, folded(), norm.width));
    if (of.casts_before_weight) x.round();
    if (of.weight != nullptr) {
      Vector weight;
      if (of.wide_weight) {
        const auto* const from = reinterpret_cast<const float*>(of.weight) + channel;
        unrolled<kWidth>([&](auto i) { weight.x[i] = from[i]; });
      } else {
        weight.widen(load_words<false>(of.weight + channel * static_cast<int>(bytes_of(dtype))));
      }
      using Head = SquadHead<dtype, 2, false>;
      unrolled<kWidth>([&](auto i) { x.x[i] *= Head::applied(weight.x[i], of.one_plus); });
    }
    if (of.rounds_norm) x.round();
  }
  PHASOR_HD void turn_part(const SquadOperand& of, int channel, Vector& x) const {
    const int pair = (channel - of.first_rotated) / 2;
    if (!of.turns || channel < of.first_rotated || pair >= token.work.shape().pairs) return;
    x.turn_pairs(shared.values + pair);
    if (of.rounds_turn) x.round();
  }
  PHASOR_HD void change(int thread, Held& held) const {
    const SquadOperand& of = wide();
    if (!has_latent(thread) || of.copies) return;
    const int channel = kWidth * thread;
    held.x.widen(held.latent);
    if (norms() && channel < token.work.job().operands[latent.operand].norm.width) norm(channel, held.x);
    turn_part(of, channel, held.x);
    if (token.work.shape().makes_scales) shared.most[thread] = held.x.largest();
  }

  /// What a vector from a channel of the sink on is divided by or multiplied with, which is written where it was made of it.
  PHASOR_HD float scale_of(const job::PrepareSink& sink, const job::TokenPlace& place, int channel) const {
    if (sink.scales != CacheScales::Kind::made) {
      return sink.scale_data == nullptr ? sink.scale : *reinterpret_cast<const float*>(sink.scale_data);
    }
    const auto group = static_cast<int>(sink.group < sink.count ? sink.group : sink.count);
    const int number = channel / group;
    const int begin = number * group;
    const int end = begin + group < sink.count ? begin + group : static_cast<int>(sink.count);
    const auto first = static_cast<int>(sink.first);
    float most = 0;
    for (int v = (first + begin) / kWidth; v < (first + end) / kWidth; ++v) most = shared.most[v] > most ? shared.most[v] : most;
    const job::MadeScale made = job::made_scale_of(sink, most);
    std::byte* const to = sink.scale_data + place.block * sink.scale_strides[0] + place.token * sink.scale_strides[1];
    if (channel == begin) job::write_scale(sink, made, to + number * sink.scale_strides[3]);
    return made.applied;
  }
  PHASOR_HD void store(int thread, const Held& held) const {
    const SquadOperand& of = wide();
    if (!has_latent(thread)) return;
    const job::TokenPlace place = token.token_of(of);
    if (place.block < 0) return;
    for (int s = 0; s < latent.sink_count; ++s) {
      const LatentSink& sink = latent.sinks[s];
      const int channel = kWidth * thread - sink.first;
      if (channel < 0 || channel >= sink.count) continue;
      const SinkPlace to = {sink.as, sink.as.out + place.block * sink.as.out_block + place.token * sink.as.out_token};
      if (of.copies) {
        put_words<dtype>(held.latent, to, channel);
        continue;
      }
      Vector x = held.x;
      if (sink.as.scales != CacheScales::Kind::none) {
        scale_values<kWidth>(x.x, sink.as, scale_of(token.work.job().operands[latent.operand].sinks[s], place, channel));
      }
      put_stored<dtype>(x.x, to, channel);
    }
  }

  // ---- The others ----

  PHASOR_HD void make_other(int thread, const Held& held) const {
    const Spot spot = spot_of(thread);
    if (spot.operand < 0) return;
    const SquadOperand& of = operand(spot.operand);
    const job::TokenPlace place = token.token_of(of);
    if (place.block < 0) return;
    const SinkPlace to = {of, of.out + place.block * of.out_block + place.token * of.out_token + int64_t{spot.head} * of.out_head};
    const int channel = kWidth * spot.vector;
    if (of.copies) return put_words<dtype>(held.other, to, channel);
    Vector x;
    x.widen(held.other);
    turn_part(of, channel, x);
    if (of.queries) x.multiply(shared.query);
    if (of.rounds_query) x.round();
    put_values<dtype>(x.x, to, channel);
  }
};

/// Block: as of prepare_heads.
template <DType dtype, class Block>
PHASOR_HD inline void prepare_latent(const LatentShape& latent, const SquadWorkAt& work, const SquadPlace& place, LatentShared& shared,
                                     Block& block) {
  using Maker = LatentMaker<dtype>;
  const Maker maker = {latent, {work, place, shared}, shared};
  typename Block::template PerThread<typename Maker::Held> held;
  const unsigned seen = block.either([&](int thread) {
    maker.load(thread, held.of(thread));
    maker.share(thread, held.of(thread));
    maker.token.make_token(thread, block.threads());
    return maker.token.make_values(thread, block.threads());
  });
  if ((seen & Maker::Token::kDoubts) != 0) {  // as prepare_heads does it
    block.again(work, place, shared);
    block.wait();
    block.each([&](int thread) { maker.load(thread, held.of(thread)); });
  }
  if (maker.norms()) {
    block.each([&](int thread) { maker.add_squares(thread); });
    block.wait();
  }
  block.each([&](int thread) { maker.change(thread, held.of(thread)); });
  if (work.shape().makes_scales) block.wait();
  block.each([&](int thread) {
    maker.store(thread, held.of(thread));
    maker.make_other(thread, held.of(thread));
  });
}

}  // namespace phasor::cuda
