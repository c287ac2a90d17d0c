// SPDX-License-Identifier: Apache-2.0
// A piece of a token of MLA made ready by a warp: the steps and their roundings are those of job/prepare/token.hpp. Everything is asked for
// at once and lies in shared memory as it came, so that sines are made meanwhile and few registers make room for many warps. Written for
// any executor of a warp; tests run it on the host.
#pragma once

#include "cuda/prepare/latent/shape.hpp"
#include "cuda/prepare/plain/head.hpp"

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
  PHASOR_HD Words narrowed() const {
    Words words;
    unrolled<kWidth / 2>([&](auto i) { words.at[i] = Element<dtype>::narrow(x[2 * i], x[2 * i + 1]); });
    return words;
  }
  PHASOR_HD void round() {
    unrolled<kWidth / 2>([&](auto i) { round_two<dtype>(x[2 * i], x[2 * i + 1]); });
  }
  PHASOR_HD void multiply(float factor) {
    unrolled<kWidth>([&](auto i) { x[i] = x[i] * factor; });
  }
  /// Neighbouring pairs; one that rests is left bit for bit.
  template <bool rests>
  PHASOR_HD void turn_pairs(const CosSin<float>* values) {
    const auto by = values_at<float, kWidth / 2>(values);
    unrolled<kWidth / 2>([&](auto i) {
      if (!rests || !math::is_identity(by.at[i].cos, by.at[i].sin)) turn(x[2 * i], x[2 * i + 1], by.at[i]);
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
  static constexpr int kWidth = Vector::kWidth;
  /// What is of the token, for every lane.
  struct Token {
    job::TokenPlace place;
    float query;
    bool rests;    // some of its pairs do
    float factor;  // of the wide head's norm
  };

  const LatentShape& latent;
  SquadWorkAt work;
  LatentPlace place;
  LatentMemory memory;

  PHASOR_HD const SquadOperand& wide() const { return operand(latent.operand); }
  PHASOR_HD const SquadOperand& operand(int number) const { return work.shape().operands[number]; }
  PHASOR_HD bool has_wide() const { return place.piece == 0; }
  PHASOR_HD bool norms() const { return has_wide() && latent.norm_width != 0; }
  PHASOR_HD const std::byte* token_in(const SquadOperand& of) const {
    const math::u64 before =
        math::u64{static_cast<unsigned>(place.of.batch)} * of.in_batch + math::u64{static_cast<unsigned>(place.of.token)} * of.in_token;
    return of.in + before * sizeof(Words);
  }
  PHASOR_HD job::TokenPlace token_of(const SquadOperand& of, const Token& token) const {
    return of.placed ? token.place : job::TokenPlace{place.of.batch, place.of.token};
  }

  /// One of the others' vectors, and where it lies meanwhile.
  struct Spot {
    int head;
    int vector;
    Words* held;
  };
  /// begin(operand) for each of the others that the piece has some of, which gives body(spot).
  template <class Begin>
  PHASOR_HD void each_other(int lane, const Begin& begin) const {
    const int first = (place.piece - (latent.wide_apart ? 1 : 0)) * latent.each;
    if (first < 0) return;
    for (int o = 0; o < job::kPrepareOperands; ++o) {
      const int before = o == 0 ? 0 : latent.ends[o - 1];
      const int from = first < before ? before : first;
      const int end = first + latent.each < latent.ends[o] ? first + latent.each : latent.ends[o];
      if (from >= end) continue;
      const auto body = begin(operand(o));
      for (int n = from + lane; n < end; n += kLatentLanes) {
        const int head = divided_by(n - before, latent.head_inverse[o]);
        body(Spot{head, n - before - head * latent.of_head[o], memory.others + (n - first)});
      }
    }
  }

  /// Everything that is read.
  template <class Warp>
  PHASOR_HD void ask(int lane, const Warp& warp) const {
    if (has_wide()) {
      const std::byte* const from = token_in(wide());
      for (int v = lane; v < latent.vectors; v += kLatentLanes) warp.fetch(memory.row + v, from + v * sizeof(Words));
      for (int v = lane; v < latent.weights; v += kLatentLanes) warp.fetch(memory.weights + v, wide().weight + v * sizeof(Words));
    }
    each_other(lane, [&](const SquadOperand& of) {
      const std::byte* const from = token_in(of);
      return [from, &of, &warp](const Spot& spot) {
        warp.fetch(spot.held, from + (int64_t{spot.head} * of.in_head + spot.vector * static_cast<int>(sizeof(Words))));
      };
    });
  }
  /// Whether a pair rests, and whether a value is in doubt.
  static constexpr unsigned kRests = 1;
  static constexpr unsigned kDoubts = 2;
  PHASOR_HD unsigned make_values(int lane) const {
    if (work.shape().by_tables) return kDoubts;
    unsigned seen = 0;
    const SineSource& sines = work.shape().sines;
    for (int pair = lane; pair < work.shape().pairs; pair += kLatentLanes) {
      const unsigned axis = sines.many_axes ? work.axis_of_pair[pair] : 0U;
      CosSin<float> value;
      const bool doubt = sine_of(sines, {work.steps[pair], position_bits(sines, axis, place.of.batch, place.of.token)}, value);
      memory.values[pair] = value;
      seen |= (doubt ? kDoubts : 0U) | (math::is_identity(value.cos, value.sin) ? kRests : 0U);
    }
    return seen;
  }

  // ---- The wide head ----

  PHASOR_HD float channel(int c) const {
#ifdef __CUDA_ARCH__
    return Element<dtype>::widen(reinterpret_cast<const std::uint16_t*>(memory.row)[c]);
#else
    return Element<dtype>::widen(static_cast<std::uint16_t>(memory.row[c / 8].at[c % 8 / 2] >> 16 * (c & 1)));
#endif
  }
  /// The norm's partial sums, a lane each.
  PHASOR_HD float squares(int lane) const {
    float sum = 0;
    for (int c = lane; c < latent.norm_width; c += math::kNormPartials) {
      const float x = channel(c);
      sum += x * x;
    }
    return sum;
  }
  PHASOR_HD float factor_of(float sum) const { return job::norm_factor(wide().norm, wide().epsilon, sum, latent.norm_width); }

  PHASOR_HD void norm(int v, float factor, Vector& x) const {
    const SquadOperand& of = wide();
    x.multiply(factor);
    if (latent.machine_products) {
      Words words = x.narrowed();
      const Words weights = memory.weights[v];
      unrolled<4>([&](auto i) { words.at[i] = times_weights<dtype>(words.at[i], weights.at[i]); });
      return x.widen(words);
    }
    if (of.casts_before_weight) x.round();
    if (of.weight != nullptr) {
      Vector weight;
      if (of.wide_weight) {
        const auto* const from = reinterpret_cast<const float*>(of.weight) + v * kWidth;
        unrolled<kWidth>([&](auto i) { weight.x[i] = from[i]; });
      } else {
        weight.widen(memory.weights[v]);
      }
      using Head = SquadHead<dtype, 2, false>;
      unrolled<kWidth>([&](auto i) { x.x[i] *= Head::applied(weight.x[i], of.one_plus); });
    }
    if (of.rounds_norm) x.round();
  }
  PHASOR_HD void turn_part(const SquadOperand& of, int v, bool rests, Vector& x) const {
    const int pair = (v * kWidth - of.first_rotated) / 2;
    if (!of.turns || v * kWidth < of.first_rotated || pair >= work.shape().pairs) return;
    asked_once(rests, [&](auto rest) { x.template turn_pairs<decltype(rest)::value>(memory.values + pair); });
    if (of.rounds_turn) x.round();
  }
  /// A vector of the wide head, normed and turned.
  PHASOR_HD Vector changed(int v, const Token& token) const {
    Vector x;
    x.widen(memory.row[v]);
    if (v * kWidth < latent.norm_width) norm(v, token.factor, x);
    turn_part(wide(), v, token.rests, x);
    return x;
  }

  /// body(v) for a lane's vectors of a sink.
  template <class Body>
  PHASOR_HD static void each_vector(const LatentSink& sink, int lane, const Body& body) {
    for (int v = sink.first + lane; v < sink.first + sink.count; v += kLatentLanes) body(v);
  }
  /// Whether what is stored by made scales is in the row, as it is rounded: else it is made once more.
  PHASOR_HD bool keeps_changed() const { return !work.job().kept; }
  PHASOR_HD void find_largest(const LatentSink& sink, int lane, const Token& token) const {
    each_vector(sink, lane, [&](int v) {
      const Vector x = changed(v, token);
      memory.most[v] = x.largest();
      if (keeps_changed()) memory.row[v] = x.narrowed();
    });
  }
  /// Each lane the scales of some groups, of the largest magnitudes of their vectors.
  PHASOR_HD void make_scales(int s, int lane, const Token& token) const {
    const LatentSink& sink = latent.sinks[s];
    const job::PrepareSink& as = work.job().operands[latent.operand].sinks[s];
    const job::TokenPlace at = token_of(wide(), token);
    std::byte* const to = as.scale_data + at.block * as.scale_strides[0] + at.token * as.scale_strides[1];
    for (int group = lane; group < sink.groups; group += kLatentLanes) {
      const int begin = group * sink.group_vectors;
      const int end = begin + sink.group_vectors < sink.count ? begin + sink.group_vectors : sink.count;
      float most = 0;
      for (int v = sink.first + begin; v < sink.first + end; ++v) most = memory.most[v] > most ? memory.most[v] : most;
      const job::MadeScale made = job::made_scale_of(as, most);
      memory.scales[group] = {made.applied, 1.0F / made.applied};
      job::write_scale(as, made, to + group * as.scale_strides[3]);
    }
  }
  static PHASOR_HD AppliedScale given_scale(const job::PrepareSink& as) {
    if (as.scales != CacheScales::Kind::given) return {1, 1};
    const float by = as.scale_data == nullptr ? as.scale : *reinterpret_cast<const float*>(as.scale_data);
    return {by, 1.0F / by};
  }
  PHASOR_HD void store(int s, int lane, const Token& token) const {
    const LatentSink& sink = latent.sinks[s];
    const SquadOperand& of = wide();
    const job::TokenPlace at = token_of(of, token);
    const SinkPlace to = {sink.as, sink.as.out + at.block * sink.as.out_block + at.token * sink.as.out_token};
    const bool is_changed = sink.groups != 0 && keeps_changed();
    const AppliedScale given = given_scale(work.job().operands[latent.operand].sinks[s]);
    each_vector(sink, lane, [&](int v) {
      const int channel = kWidth * (v - sink.first);
      if (of.copies) return put_words<dtype>(memory.row[v], to, channel);
      Vector x;
      if (is_changed) {
        x.widen(memory.row[v]);
      } else {
        x = changed(v, token);
      }
      if (sink.as.scales != CacheScales::Kind::none) {
        const AppliedScale scale = sink.groups == 0 ? given : memory.scales[divided_by(v - sink.first, sink.group_inverse)];
        scale_values<kWidth>(x.x, sink.as, scale, keeps_changed());
      }
      put_stored<dtype>(x.x, to, channel);
    });
  }

  // ---- The others ----

  PHASOR_HD void make_others(int lane, const Token& token) const {
    each_other(lane, [&](const SquadOperand& of) {
      const job::TokenPlace at = token_of(of, token);
      std::byte* const first = at.block < 0 ? nullptr : of.out + at.block * of.out_block + at.token * of.out_token;
      return [this, first, &of, &token](const Spot& spot) {
        if (first == nullptr) return;
        const SinkPlace to = {of, first + int64_t{spot.head} * of.out_head};
        const int channel = kWidth * spot.vector;
        if (of.copies) return put_words<dtype>(*spot.held, to, channel);
        Vector x;
        x.widen(*spot.held);
        turn_part(of, spot.vector, token.rests, x);
        if (of.queries) x.multiply(token.query);
        if (of.rounds_query) x.round();
        put_words<dtype>(x.narrowed(), to, channel);
      };
    });
  }
};

/// Warp: `each(body)` runs body(lane) for every lane; `either(body)` does, waits for all, and gives the bits that any of them returned;
/// `fetch(to, from)` copies a vector, which is there for its own lane after `arrive()` and for all after a `wait()` behind that;
/// `sum(body)` adds up body(lane) of all lanes by the norm's tree; `again` is the row by the definition, out of line.
template <DType dtype, class Warp>
PHASOR_HD inline void prepare_latent(const LatentShape& latent, const SquadWorkAt& work, const LatentPlace& place,
                                     const LatentMemory& memory, Warp& warp) {
  using Maker = LatentMaker<dtype>;
  const Maker maker = {latent, work, place, memory};
  warp.each([&](int lane) { maker.ask(lane, warp); });
  const job::PrepareJob& job = work.job();
  typename Maker::Token token{};
  token.place = job::place_of(job.places, place.of.batch, place.of.token, job.turn.tokens);
  token.query = job::query_factor(job, place.of.batch, place.of.token);
  const unsigned seen = warp.either([&](int lane) { return maker.make_values(lane); });
  token.rests = seen != 0;
  if ((seen & Maker::kDoubts) != 0) warp.again(work, place.of, memory.values);
  warp.arrive();
  warp.wait();
  if (maker.has_wide() && maker.token_of(maker.wide(), token).block >= 0) {
    if (maker.norms()) token.factor = maker.factor_of(warp.sum([&](int lane) { return maker.squares(lane); }));
    for (int s = 0; s < latent.sink_count; ++s) {
      if (latent.sinks[s].groups != 0) {
        warp.wait();  // for whoever reads the row, or scales of the sink before
        warp.each([&](int lane) { maker.find_largest(latent.sinks[s], lane, token); });
        warp.wait();
        warp.each([&](int lane) { maker.make_scales(s, lane, token); });
        warp.wait();
      }
      warp.each([&](int lane) { maker.store(s, lane, token); });
    }
  }
  warp.each([&](int lane) { maker.make_others(lane, token); });
}

}  // namespace phasor::cuda
