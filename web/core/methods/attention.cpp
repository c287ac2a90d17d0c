// SPDX-License-Identifier: Apache-2.0
// Attention: the weights of a scheme as a map, computed forward by the library, and what a call would cost.
#include "phasor/attention.hpp"

#include <fmt/core.h>

#include <functional>
#include <string>
#include <utility>

#include "phasor/scheme.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"

namespace phasor::web {
namespace {

struct Sizes {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

/// Tensors of a call, with their memory: what a scheme names is made of random numbers.
class Tensors {
 public:
  Tensors(const AttentionScheme& scheme, const Sizes& sizes, std::int64_t seed) : random_(seed), sizes_(sizes) {
    for (const TermScheme& term : scheme.terms) terms_.push_back(std::visit([this](const auto& one) { return of(one); }, term));
    if (scheme.content_shift) tensors_.content_shift = make({1, 1, 1, sizes.head_dim});
    if (scheme.sinks) tensors_.sinks = make({1, 1, 1, 1});
    tensors_.terms = terms_;
  }

  const AttentionTensors& all() const { return tensors_; }
  void at(std::int64_t first_position) {
    tensors_.query_positions = positions_from(first_position);
    tensors_.key_positions = positions_from(first_position);
  }

 private:
  /// Numbers small enough that a table does not drown the contents.
  ConstTensorView make(const Extents& shape) {
    memory_.push_back(random_.normal<float>(shape[0] * shape[1] * shape[2] * shape[3], 0.5));
    return view(std::as_const(memory_.back()).data(), shape);
  }

  static std::int64_t rows_of(const TableRowsSpec& rows) {
    if (const auto* clip = std::get_if<ClipRows>(&rows)) return clip->left + 1 + clip->right;
    return value_of(Bias::make(std::get<BiasSpec>(rows)), "scheme").rows();
  }

  TermTensors of(const BiasScheme& term) {
    TermTensors tensors;
    if (term.gate) tensors.features = make({1, sizes_.tokens, 1, 1});
    if (term.parameters) fail(Status::unsupported("parameters of a bias are those of its spec here"), "scheme");
    return tensors;
  }
  TermTensors of(const TableScheme& term) {
    TermTensors tensors;
    tensors.table = make({1, checked(rows_of(term.rows)), 1, sizes_.head_dim});
    if (term.features) tensors.features = make({1, sizes_.tokens, 1, sizes_.head_dim});
    if (term.shift) tensors.shift = make({1, 1, 1, sizes_.head_dim});
    return tensors;
  }
  TermTensors of(const SegmentScheme& /*term*/) { without("segments"); }
  TermTensors of(const GridScheme& term) {
    const std::int64_t rows = checked((2 * checked(term.window.height) - 1) * (2 * checked(term.window.width) - 1));
    TermTensors tensors;
    tensors.table = make({1, rows + (term.class_token == ClassToken::first ? 3 : 0), 1, 1});
    return tensors;
  }
  TermTensors of(const DecomposedScheme& term) {
    TermTensors tensors;
    tensors.table = make({1, 2 * checked(std::max(term.query_grid.height, term.key_grid.height)) - 1, 1, sizes_.head_dim});
    tensors.second = make({1, 2 * checked(std::max(term.query_grid.width, term.key_grid.width)) - 1, 1, sizes_.head_dim});
    return tensors;
  }
  TermTensors of(const DenseScheme& /*term*/) { without("a bias given in full"); }
  TermTensors of(const CopeScheme& /*term*/) {
    TermTensors tensors;
    tensors.table = make({1, sizes_.tokens, 1, sizes_.head_dim});
    return tensors;
  }

  [[noreturn]] static void without(const char* what) {
    fail(Status::unsupported(fmt::format("the scheme takes {}, which a request does not bring", what)), "scheme");
  }
  static std::int64_t checked(std::int64_t rows) {
    constexpr std::int64_t kMostRows = 8192;
    if (rows < 1 || rows > kMostRows) refuse("scheme", fmt::format("a table has {} rows, wanted 1 to 8192", rows));
    return rows;
  }

  Random random_;
  Sizes sizes_;
  std::vector<std::vector<float>> memory_;
  std::vector<TermTensors> terms_;
  AttentionTensors tensors_;
};

/// q or k of every token and head.
std::vector<float> contents(const std::string& kind, const Sizes& sizes, Random& random, double strength) {
  const std::int64_t head = sizes.heads * sizes.head_dim;
  if (kind == "random") return random.normal<float>(sizes.tokens * head, strength);
  std::vector<float> one(static_cast<std::size_t>(head), kind == "ones" ? static_cast<float>(strength) : 0);
  if (kind == "same") one = random.normal<float>(head, strength);
  std::vector<float> all;
  for (std::int64_t t = 0; t < sizes.tokens; ++t) all.insert(all.end(), one.begin(), one.end());
  return all;
}

/// Memory of a call, as much as it asks for.
template <class Ask>
std::vector<std::byte> workspace_of(const Ask& ask) {
  return std::vector<std::byte>(static_cast<std::size_t>(value_of(ask(), "scheme")));
}

struct Call {
  AttentionInputs inputs;
  AttentionSpec spec;
  Extents shape;
};

Json weights_of(const Call& call, std::int64_t head, Blocks& blocks) {
  const std::int64_t tokens = call.shape[1];
  const AttentionRows rows{.batch = 0, .query = 0, .head = head};
  std::vector<float> values(static_cast<std::size_t>(tokens * tokens));
  const AttentionWeights weights{.weights = view(values.data(), {1, tokens, 1, tokens})};
  auto memory = workspace_of([&] { return attention_weights_workspace(call.inputs, call.spec, rows, weights); });
  must(attention_weights(call.inputs, call.spec, rows, weights, memory), "scheme");
  return blocks.add(std::move(values), {tokens, tokens});
}

/// Of one head out of (1, T, H, width).
Json part_of(const std::vector<float>& all, const Extents& shape, std::int64_t head, Blocks& blocks) {
  std::vector<float> part;
  for (std::int64_t t = 0; t < shape[1]; ++t) {
    const float* first = all.data() + (t * shape[2] + head) * shape[3];
    part.insert(part.end(), first, first + shape[3]);
  }
  return blocks.add(std::move(part), shape[3] == 1 ? Shape{shape[1]} : Shape{shape[1], shape[3]});
}

Sizes sizes_of(Request& request) {
  return {request.integer("tokens", 64, {1, kMostCells}), request.integer("heads", 8, {1, 64}), request.integer("head_dim", 64, {1, 256})};
}

}  // namespace

Json attention_map(Request& request, Blocks& blocks) {
  const Attention attention_of = value_of(Attention::make(request.scheme("scheme")), "scheme");
  const Sizes sizes = sizes_of(request);
  const std::int64_t head = request.integer("head", 0, {0, sizes.heads - 1});
  Request content = request.object("content");
  const std::string kind = content.choice("kind", {"random", "same", "ones", "zero"});
  const std::int64_t seed = content.integer("seed", 1);
  const double strength = content.number("strength", 1);
  content.finish();
  Random random(seed);
  Tensors tensors(attention_of.scheme(), sizes, seed + 1);
  tensors.at(request.integer("first_position", 0));
  const auto q = contents(kind, sizes, random, strength);
  const auto k = contents(kind, sizes, random, strength);
  const auto v = random.normal<float>(sizes.tokens * sizes.heads * sizes.head_dim);
  const Extents shape{1, sizes.tokens, sizes.heads, sizes.head_dim};
  const Call call{
      {view(q.data(), shape), view(k.data(), shape), view(v.data(), shape)}, value_of(attention_of.spec(tensors.all()), "scheme"), shape};
  std::vector<float> out(q.size());
  std::vector<float> lse(static_cast<std::size_t>(sizes.tokens * sizes.heads));
  const Extents one{1, sizes.tokens, sizes.heads, 1};
  auto memory = workspace_of([&] { return attention_workspace(call.inputs, call.spec); });
  must(attention(call.inputs, call.spec, {view(out.data(), shape), view(lse.data(), one)}, memory), "scheme");
  return Json::object()
      .with("weights", weights_of(call, head, blocks))
      .with("lse", part_of(lse, one, head, blocks))
      .with("output", part_of(out, shape, head, blocks));
}

Json attention_report(Request& request, Blocks& /*blocks*/) {
  const Attention attention_of = value_of(Attention::make(request.scheme("scheme")), "scheme");
  const Range lengths{1, std::int64_t{1} << 17};
  const std::int64_t batch = request.integer("batch", 1, {1, 1024});
  const std::int64_t queries = request.integer("queries", 1024, lengths);
  const std::int64_t keys = request.integer("keys", 1024, lengths);
  const Sizes sizes{queries, request.integer("heads", 8, {1, 1024}), request.integer("head_dim", 64, {1, 1024})};
  const std::int64_t kv_heads = request.integer("kv_heads", sizes.heads, {1, sizes.heads});
  const std::string dtype = request.choice("dtype", {"f32", "bf16", "f16"});
  const DType type = dtype == "f32" ? DType::f32 : dtype == "bf16" ? DType::bf16 : DType::f16;
  const Tensors tensors(attention_of.scheme(), {std::min(queries, kMostTokens), sizes.heads, sizes.head_dim}, 1);
  // Only shapes are looked at: the memory of a call of a million tokens is not there.
  const auto nothing = [&](std::int64_t tokens, std::int64_t heads) {
    const Extents shape{batch, tokens, heads, sizes.head_dim};
    return ConstTensorView(&batch, type, shape, contiguous_strides(shape));
  };
  const AttentionInputs inputs{nothing(queries, sizes.heads), nothing(keys, kv_heads), nothing(keys, kv_heads)};
  const AttentionSpec spec = value_of(attention_of.spec(tensors.all()), "scheme");
  const AttentionReport report = value_of(explain_attention(inputs, spec), "scheme");
  return Json::object()
      .with("query_tile", report.query_tile)
      .with("key_tile", report.key_tile)
      .with("band_tiles", report.band_tiles)
      .with("far_tiles", report.far_tiles)
      .with("unseen_tiles", report.unseen_tiles)
      .with("operations", report.operations)
      .with("plain_operations", report.plain_operations)
      .with("bytes", report.bytes)
      .with("workspace", report.workspace)
      .with("words", report.words);
}

}  // namespace phasor::web
