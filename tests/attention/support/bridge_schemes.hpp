// SPDX-License-Identifier: Apache-2.0
// Schemes of the reference of attention as terms and contents of the library, and gradients of those as the reference has them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "attention/support/bridge_store.hpp"
#include "attention/support/problems.hpp"
#include "phasor/attention.hpp"

namespace phasor::test {

/// Adds a scheme's terms to a spec. A gradient has the strides of what it is by, so that its memory is in the reference's order; `back`
/// then says how it becomes the reference's.
class SchemeBridge {
 public:
  SchemeBridge(const ref::Problem& problem, DType parameters) : p_(problem), dtype_(parameters) {}

  AttentionContent content = PlainContent{};
  ConstTensorView content_shift = {};
  std::vector<AttentionTerm> terms = {};
  std::vector<TermGradient> gradients = {};
  TensorView content_shift_gradient = {};
  std::vector<std::function<void()>> back = {};

  /// own: the scheme of the reference's gradients, zeros.
  void add(const ref::Scheme& scheme, ref::Scheme& own) {
    std::visit([&]<class S>(const S& s) { convert(s, std::get<S>(own)); }, scheme);
  }

 private:
  std::int64_t heads() const { return p_.shape.heads; }
  std::int64_t width() const { return p_.shape.width; }
  Extents head_rows() const { return {1, 1, heads(), width()}; }

  /// A tensor of parameters, and where its gradient goes; `own` gets it.
  std::pair<ConstTensorView, TensorView> parameter(const ref::Values& values, const Seen& seen, ref::Values& own) {
    Numbered& gradient = store_.make(static_cast<std::int64_t>(values.size()), dtype_ == DType::f64 ? DType::f64 : DType::f32);
    back.emplace_back([&gradient, &own] { own = gradient.values(); });
    return {store_.hold(values, dtype_).view(seen), gradient.view(seen)};
  }

  /// A bias whose parameters are those of the reference one after the other.
  BiasTerm& bias(const BiasSpec& spec, std::vector<std::span<double>> own) {
    const Bias made = expect_ok(Bias::make(spec));
    std::vector<double>& sum = sums_.emplace_back(static_cast<std::size_t>(made.parameter_count()), 0);
    back.emplace_back([&sum, own] {
      auto from = sum.begin();
      for (const std::span<double>& part : own) {
        std::copy_n(from, part.size(), part.begin());
        from += static_cast<std::ptrdiff_t>(part.size());
      }
    });
    terms.emplace_back(BiasTerm{.bias = made});
    gradients.push_back({.parameters = list_view(sum)});
    return std::get<BiasTerm>(terms.back());
  }

  // ---- Functions of the distance ----

  void convert(const ref::Alibi& s, ref::Alibi& own) {
    bias(Alibi{.heads = heads(), .slopes = s.slopes, .form = static_cast<AlibiForm>(s.form)}, {own.slopes});
  }
  void convert(const ref::T5& s, ref::T5& own) { bias(buckets(s), {own.table}); }
  void convert(const ref::WavLm& s, ref::WavLm& own) {
    const auto [gate, gradient] = parameter(s.gate, as_is({p_.shape.batch, p_.shape.queries, heads(), 1}), own.gate);
    bias(buckets(s.bias), {own.bias.table}).gate = gate;
    gradients.back().features = gradient;
  }
  void convert(const ref::Kerple& s, ref::Kerple& own) {
    bias(Kerple{.kind = static_cast<KerpleKind>(s.kind), .r1 = s.r1, .r2 = s.r2}, {own.r1, own.r2});
  }
  void convert(const ref::Sandwich& s, ref::Sandwich&) { bias(Sandwich{.heads = heads(), .width = s.width, .base = s.base}, {}); }
  void convert(const ref::LearnedDiagonal& s, ref::LearnedDiagonal& own) {
    bias(ShawClip{.heads = heads(), .left = s.left, .right = s.right, .table = s.table}, {own.table});
  }
  void convert(const ref::Fire& s, ref::Fire& own) {
    const Mlp mlp{.widths = s.widths, .parameters = s.mlp, .activation = static_cast<Activation>(s.activation)};
    bias(Fire{.mlp = mlp, .c = s.c, .length = s.length, .epsilon = s.epsilon}, {own.mlp, {&own.c, 1}, {&own.length, 1}});
  }

  T5Buckets buckets(const ref::T5& s) const {
    return {.heads = heads(),
            .buckets = s.buckets,
            .max_distance = s.max_distance,
            .sides = s.both_sides ? BucketSides::both : BucketSides::behind,
            .table = s.table};
  }

  // ---- Any bias, and biases of images ----

  void convert(const ref::Dense& s, ref::Dense& own) {
    const auto [b, h, i, j] = s.extents;
    const auto [view, gradient] = parameter(s.bias, {{b, i, h, j}, {h * i * j, j, i * j, 1}}, own.bias);
    terms.emplace_back(DenseTerm{view});
    gradients.push_back({.table = gradient});
  }
  void convert(const ref::Swin& s, ref::Swin& own) {
    const std::int64_t rows = static_cast<std::int64_t>(s.table.size()) / heads();
    const auto [view, gradient] = parameter(s.table, {{1, rows, heads(), 1}, {0, 1, rows, 1}}, own.table);
    terms.emplace_back(GridTerm{{s.height, s.width}, s.class_token ? ClassToken::first : ClassToken::absent, view});
    gradients.push_back({.table = gradient});
  }
  void convert(const ref::Sam& s, ref::Sam& own) {
    const auto rows = [&](const ref::Values& table) { return as_is({1, static_cast<std::int64_t>(table.size()) / width(), 1, width()}); };
    const auto [h, h_gradient] = parameter(s.rows_h, rows(s.rows_h), own.rows_h);
    const auto [w, w_gradient] = parameter(s.rows_w, rows(s.rows_w), own.rows_w);
    const Window query_grid{s.query_grid[0], s.query_grid[1]};
    terms.emplace_back(DecomposedTerm{query_grid, {s.key_grid[0], s.key_grid[1]}, h, w});
    gradients.push_back({.table = h_gradient, .second = w_gradient});
  }

  // ---- Tables ----

  /// (H or 1, rows, channels) as (1, rows, H or 1, channels).
  static Seen rows_of_heads(std::int64_t table_heads, std::int64_t rows, std::int64_t channels) {
    return {{1, rows, table_heads, channels}, {0, channels, rows * channels, 1}};
  }
  TableTerm& table(TableSide side, const ref::Values& values, const Seen& seen, ref::Values& own) {
    const auto [view, gradient] = parameter(values, seen, own);
    terms.emplace_back(TableTerm{.side = side, .table = view});
    gradients.push_back({.table = gradient});
    return std::get<TableTerm>(terms.back());
  }

  void convert(const ref::Shaw& s, ref::Shaw& own) {
    const ClipRows rows{s.left, s.right};
    const std::int64_t count = s.left + 1 + s.right;
    const std::int64_t table_heads = s.per_head ? heads() : 1;
    if (!s.keys.empty()) table(TableSide::query, s.keys, rows_of_heads(table_heads, count, width()), own.keys).rows = rows;
    if (!s.values.empty()) {
      table(TableSide::value, s.values, rows_of_heads(table_heads, count, p_.shape.value_width), own.values).rows = rows;
    }
  }
  void convert(const ref::Deberta& s, ref::Deberta& own) {
    const std::int64_t count = 2 * (s.buckets > 0 ? s.buckets : s.max_distance);
    const auto rows = [&](ref::DebertaReading reading) {
      return expect_ok(Bias::make(DebertaBuckets{
          .heads = 1, .buckets = s.buckets, .max_distance = s.max_distance, .reading = static_cast<DebertaReading>(reading)}));
    };
    const Seen seen = rows_of_heads(heads(), count, width());
    if (!s.keys.empty()) table(TableSide::query, s.keys, seen, own.keys).rows = rows(s.c2p);
    if (!s.queries.empty()) table(TableSide::key, s.queries, seen, own.queries).rows = rows(s.p2c);
  }
  /// P (features, extent) as rows by key - query, the farthest distance first: a view of P; of multiples of 8 features rows of their own,
  /// as tensor cores want them.
  TableTerm& inkling_rows(const ref::Inkling& s, ref::Inkling& own) {
    const Extents shape = {1, s.extent, 1, s.feature_width};
    if (s.feature_width % 8 != 0) return table(TableSide::query, s.table, {shape, {0, -1, 0, s.extent}, s.extent - 1}, own.table);
    const auto turned = [extent = s.extent, width = s.feature_width](const ref::Values& from, bool to_rows) {
      ref::Values to(from.size());
      for (std::int64_t n = 0; n < extent * width; ++n) {
        const auto row = static_cast<std::size_t>(n);
        const auto of_p = static_cast<std::size_t>(n % width * extent + extent - 1 - n / width);
        to[to_rows ? row : of_p] = from[to_rows ? of_p : row];
      }
      return to;
    };
    TableTerm& term = table(TableSide::query, turned(s.table, true), as_is(shape), own.table);
    back.emplace_back([turned, &own] { own.table = turned(own.table, false); });
    return term;
  }
  void convert(const ref::Inkling& s, ref::Inkling& own) {
    TableTerm& term = inkling_rows(s, own);
    ref::Values tau;
    ref::Values scaled = s.features;
    for (std::size_t n = 0; n < scaled.size(); ++n) {
      const std::int64_t token = static_cast<std::int64_t>(n) / (s.feature_width * heads());
      const ref::Cell cell{.b = token / p_.shape.queries, .i = token % p_.shape.queries};
      const double position = static_cast<double>(ref::query_position(p_, cell) + 1);
      tau.push_back(1 + s.alpha * std::log(std::max(position / s.floor, 1.0)));
      scaled[n] *= tau[n];
    }
    const auto [view, gradient] = parameter(scaled, as_is({p_.shape.batch, p_.shape.queries, heads(), s.feature_width}), own.features);
    back.emplace_back([tau, &own] {
      for (std::size_t n = 0; n < tau.size(); ++n) own.features[n] *= tau[n];
    });
    term.rows = ClipRows{s.extent - 1, 0, OutsideRows::zero};
    term.features = view;
    term.scale = s.scale;
    gradients.back().features = gradient;
  }
  void convert(const ref::Cope& s, ref::Cope& own) {
    const auto [view, gradient] = parameter(s.table, rows_of_heads(s.per_head ? heads() : 1, s.rows, width()), own.table);
    terms.emplace_back(CopeTerm{view, s.gate_scale, s.term_scale});
    gradients.push_back({.table = gradient});
  }

  // ---- Transformer-XL: W r of every distance, in rows by key - query ----

  /// Distances from -right to left, that of a batch row turned by its direction.
  struct XlRows {
    ClipRows clip;
    ref::Integers direction;  // a batch row; one: shared
    std::int64_t count() const { return clip.left + 1 + clip.right; }
    std::int64_t distance(std::size_t b, std::int64_t row) const { return direction[b] * (clip.left - row); }
  };

  XlRows seen_distances() const {
    ClipRows clip;
    for (std::int64_t b = 0; b < p_.shape.batch; ++b) {
      for (std::int64_t i = 0; i < p_.shape.queries; ++i) {
        for (std::int64_t j = 0; j < p_.shape.keys; ++j) {
          const ref::Cell cell{.b = b, .i = i, .j = j};
          if (!ref::visible(p_, cell)) continue;
          clip.left = std::max(clip.left, ref::distance(p_, cell));
          clip.right = std::max(clip.right, -ref::distance(p_, cell));
        }
      }
    }
    return {clip, {1}};
  }

  /// What W r of head h at distance r is made of: row `from` of the table (null where it has none), or the sinusoid.
  std::int64_t xl_table_row(const ref::TransformerXl& s, std::int64_t r) const {
    const std::int64_t rows = static_cast<std::int64_t>(s.table.size()) / (heads() * width());
    return r >= s.first_distance && r < s.first_distance + rows ? r - s.first_distance : -1;
  }
  /// combine(number of the parameter, its factor, number of the row's channel) for every part of a row's D channels of every head.
  template <class Combine>
  void each_part(const ref::TransformerXl& s, std::int64_t r, const Combine& combine) const {
    const std::int64_t rows = static_cast<std::int64_t>(s.table.size()) / (heads() * width());
    const ref::Values sinusoid = s.table.empty() ? ref::xl_sinusoid(s, static_cast<long double>(r)) : ref::Values();
    for (std::int64_t c = 0; c < heads() * width(); ++c) {
      const std::int64_t row = s.table.empty() ? 0 : xl_table_row(s, r);
      if (!s.table.empty() && row >= 0) combine((c / width() * rows + row) * width() + c % width(), 1.0, c);
      for (std::size_t m = 0; m < sinusoid.size(); ++m) combine(c * s.model_width + static_cast<std::int64_t>(m), sinusoid[m], c);
    }
  }

  void add_xl(const ref::TransformerXl& s, ref::TransformerXl& own, const XlRows& rows) {
    if (content_shift.data != nullptr || !std::holds_alternative<PlainContent>(content)) {
      throw std::invalid_argument("bridge: u of Transformer-XL wants plain contents, and once");
    }
    std::tie(content_shift, content_shift_gradient) = parameter(s.u, as_is(head_rows()), own.u);
    const auto batch = static_cast<std::int64_t>(rows.direction.size());
    const std::int64_t row_size = heads() * width();
    ref::Values made(static_cast<std::size_t>(batch * rows.count() * row_size), 0);
    const ref::Values& from = s.table.empty() ? s.projection : s.table;
    const auto each = [this, s, rows, batch, row_size](const auto& combine) {
      for (std::int64_t n = 0; n < batch * rows.count(); ++n) {
        const std::int64_t r = rows.distance(static_cast<std::size_t>(n / rows.count()), n % rows.count());
        each_part(s, r, [&](std::int64_t parameter, double factor, std::int64_t c) {
          combine(static_cast<std::size_t>(parameter), factor, static_cast<std::size_t>(n * row_size + c));
        });
      }
    };
    each([&](std::size_t parameter, double factor, std::size_t to) { made[to] += factor * from[parameter]; });
    ref::Values& by_rows = rows_.emplace_back();
    TableTerm& term = table(TableSide::query, made, as_is({batch, rows.count(), heads(), width()}), by_rows);
    term.rows = rows.clip;
    ref::Values& target = s.table.empty() ? own.projection : own.table;
    back.emplace_back([each, &by_rows, &target] {
      std::fill(target.begin(), target.end(), 0);
      each([&](std::size_t parameter, double factor, std::size_t at) { target[parameter] += factor * by_rows[at]; });
    });
    std::tie(term.shift, gradients.back().shift) = parameter(s.v, as_is(head_rows()), own.v);
  }

  void convert(const ref::TransformerXl& s, ref::TransformerXl& own) { add_xl(s, own, seen_distances()); }
  void convert(const ref::Xlnet& s, ref::Xlnet& own) {
    XlRows rows = seen_distances();
    if (s.clamp > 0) rows.clip = {s.clamp, s.clamp};
    if (!s.direction.empty()) rows.direction = s.direction;
    add_xl(s.xl, own.xl, rows);
    if (s.segment_bias.empty()) return;
    const auto [view, gradient] = parameter(s.segment_table, as_is({1, 2, heads(), width()}), own.segment_table);
    const auto [shift, shift_gradient] = parameter(s.segment_bias, as_is(head_rows()), own.segment_bias);
    const Positions query_segments = positions(store_.hold(s.query_segments).data(), p_.shape.batch, p_.shape.queries);
    const Positions key_segments = positions(store_.hold(s.key_segments).data(), p_.shape.batch, p_.shape.keys);
    terms.emplace_back(SegmentTerm{view, shift, query_segments, key_segments});
    gradients.push_back({.table = gradient, .shift = shift_gradient});
  }

  // ---- How q meets k ----

  Rotary rotary(const ref::Ladder& ladder) const {
    const std::int64_t rotated = ladder.rotary_width == 0 ? width() : ladder.rotary_width;
    Scaling scaling = GivenFactors{std::vector<double>(static_cast<std::size_t>(rotated / 2), 1), ladder.amplitude};
    if (!ladder.frequencies.empty()) scaling = GivenFrequencies{ladder.frequencies, ladder.amplitude};
    return expect_ok(Rotary::make({.head_dim = width(),
                                   .rotary_width = rotated,
                                   .base = ladder.base,
                                   .scaling = scaling,
                                   .pairing = static_cast<Pairing>(ladder.pairing)}));
  }
  void set(AttentionContent made) {
    if (content_shift.data != nullptr) throw std::invalid_argument("bridge: u of Transformer-XL wants plain contents");
    content = std::move(made);
  }
  void convert(const ref::Rope& s, ref::Rope&) {
    set(RotaryContent{rotary(s.ladder), s.keys_rotated ? KeyState::rotated : KeyState::unrotated});
  }
  void convert(const ref::Xpos& s, ref::Xpos&) {
    if (s.keys_rotated) throw std::invalid_argument("bridge: xPos wants keys unrotated");
    set(XposContent{rotary(s.ladder), s.gamma, s.scale_base});
  }
  void convert(const ref::MappedRope& s, ref::MappedRope&) {
    PositionMap map = ReRope{s.window};
    if (s.kind == ref::MapKind::leaky_rerope) map = LeakyReRope{s.window, s.factor};
    if (s.kind == ref::MapKind::self_extend) map = SelfExtend{s.window, s.group};
    if (s.kind == ref::MapKind::dual_chunk) map = DualChunk{s.chunk, s.local};
    set(RotaryContent{rotary(s.ladder), KeyState::unrotated, map});
  }

  const ref::Problem& p_;
  DType dtype_;
  Store store_;
  std::deque<std::vector<double>> sums_;
  std::deque<ref::Values> rows_;
};

}  // namespace phasor::test
