// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention, checked and made plain data.
#include <algorithm>
#include <bit>

#include "job/overlap.hpp"
#include "job/prepare/check.hpp"
#include "job/rotation.hpp"
#include "plan/rotary.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

std::size_t at(CacheAxis axis) { return static_cast<std::size_t>(axis); }

/// The operands of a call, in the order q, k, v.
std::array<PreparedTensor, 3> tensors_of(const PrepareCall& call) {
  return {{{"q", call.inputs.q, call.outputs.q, call.spec.q_norm, false},
           {"k", call.inputs.k, call.outputs.k, call.spec.k_norm, true},
           {"v", call.inputs.v, call.outputs.v, call.spec.v_norm, true}}};
}

bool is_prepared_dtype(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

/// One tensor by itself and against the first of the call.
Status check_tensor(const PreparedTensor& tensor, const ConstTensorView& first) {
  if (Status s = check_view(kPrepare, tensor.name, tensor.in); !s) return s;
  if (Status s = check_tokens(kPrepare, tensor.name, tensor.in.shape); !s) return s;
  const auto& [batch, tokens, heads, head_dim] = tensor.in.shape;
  if (!is_prepared_dtype(tensor.in.dtype)) {
    return error(kPrepare, "{} is {}, wanted f32, f16 or bf16", tensor.name, name_of(tensor.in.dtype));
  }
  if (tensor.in.dtype != first.dtype) {
    return error(kPrepare, "{} is {} and another tensor {}, wanted one dtype", tensor.name, name_of(tensor.in.dtype), name_of(first.dtype));
  }
  if (Status s = check_device(kPrepare, tensor.name, tensor.in.device, first.device); !s) return s;
  if (batch != first.shape[0] || tokens != first.shape[1]) {
    return error(kPrepare, "{} has {} x {} tokens, wanted {} x {}", tensor.name, batch, tokens, first.shape[0], first.shape[1]);
  }
  if (heads < 1) return error(kPrepare, "{} has 0 heads, wanted at least 1", tensor.name);
  if (head_dim < 1 || head_dim > kMaxPreparedChannels) {
    return error(kPrepare, "{} has head_dim {}, wanted 1 to {}", tensor.name, head_dim, kMaxPreparedChannels);
  }
  return {};
}

Status check_spec(const PrepareSpec& spec) {
  if (spec.order > PrepareSpec::Order::rotation_first || spec.between > PrepareSpec::Between::kept) {
    return error(kPrepare, "the spec has an unknown order or way between steps");
  }
  return {};
}

Status check_factors(const ConstTensorView& factors, const ConstTensorView& first) {
  if (factors.data == nullptr) return {};
  if (Status s = check_view(kPrepare, "query_factors", factors); !s) return s;
  const auto& [batch, tokens, one, also_one] = factors.shape;
  if (factors.dtype != DType::f32 || batch != first.shape[0] || tokens != first.shape[1] || one != 1 || also_one != 1) {
    return error(kPrepare, "query_factors are {} of shape ({}, {}, {}, {}), wanted f32 of ({}, {}, 1, 1)", name_of(factors.dtype), batch,
                 tokens, one, also_one, first.shape[0], first.shape[1]);
  }
  return check_device(kPrepare, "query_factors are", factors.device, first.device);
}

PrepareNorm norm_of(const HeadNorm& norm, std::int64_t head_dim) {
  PrepareNorm made;
  made.kind = norm.kind;
  made.over_all_heads = norm.over == HeadNorm::Over::all_heads;
  made.one_plus = norm.weight_as == HeadNorm::Weight::one_plus;
  made.casts_before_weight = norm.cast == HeadNorm::Cast::before_weight;
  made.epsilon = norm.epsilon;
  made.width = norm.width == 0 ? head_dim : norm.width;
  made.weight = static_cast<const std::byte*>(norm.weight.data);
  made.weight_dtype = norm.weight.dtype;
  if (norm.weight.shape[2] > 1) made.weight_head_stride = norm.weight.strides[2] * bytes_of(norm.weight.dtype);
  return made;
}

PrepareOperand operand_of(const PreparedTensor& tensor, const PrepareJob& job) {
  PrepareOperand operand;
  const ConstTensorView& in = tensor.in;
  operand.in = static_cast<const std::byte*>(in.data);
  for (int i = 0; i < 3; ++i) operand.in_strides[i] = in.strides[static_cast<std::size_t>(i)] * bytes_of(in.dtype);
  operand.heads = in.shape[2];
  operand.head_dim = in.shape[3];
  operand.placed = tensor.placed;
  operand.norm = norm_of(tensor.norm, in.shape[3]);
  operand.scales = *tensor.name == 'q' && (job.query_scale != 1 || job.query_factors != nullptr);
  operand.turns = *tensor.name != 'v' && job.turn.pairs > 0;
  for (int p = 0; p < tensor.out.count; ++p) {
    operand.sinks[operand.sink_count++] = sink_of(tensor.out.parts[static_cast<std::size_t>(p)]);
    const PrepareSink& sink = operand.sinks[p];
    operand.rounds_last |= sink.storage != storage_of(in.dtype) || sink.scales != CacheScales::Kind::none;
  }
  operand.copies = !operand.scales && !operand.turns && !operand.rounds_last && operand.norm.kind == HeadNorm::Kind::none;
  return operand;
}

/// Which heads a rotation is for.
struct TurnedHeads {
  std::int64_t head_dim;
  std::int64_t width;
  std::int64_t offset;
  std::int64_t heads;  // 1: any; else so many, each with rows of its own
};
TurnedHeads turned_heads(const PrepareRotation& rotation, const RotateJob& turn) {
  if (has_tables(rotation)) return {turn.head_dim, 2 * turn.pairs, turn.offset, rotation.cos.shape[2]};
  const plan::RotaryPlan& plan = rotation.rotaries[0].plan();
  return {plan.spec.head_dim, plan.spec.rotary_width, plan.spec.rotary_offset, plan.heads};
}

/// Where q and k are turned, and heads that turn by their own.
Status place_rotation(const PrepareCall& call, PrepareJob& job) {
  const TurnedHeads turned = turned_heads(call.rotation, job.turn);
  for (int o = 0; o < job.operand_count; ++o) {
    PrepareOperand& operand = job.operands[o];
    if (!operand.turns) continue;
    const bool is_q = !operand.placed;
    const char* const name = is_q ? "q" : "k";
    operand.rotary_offset = is_q ? call.spec.q_rotary_offset.value_or(turned.offset) : turned.offset;
    const bool own = is_q && call.spec.q_rotary_offset.has_value();
    if (!own && operand.head_dim != turned.head_dim) {
      if (has_tables(call.rotation)) {
        return error(kPrepare, "q has head_dim {} and k {}, wanted the same, or a q_rotary_offset", operand.head_dim, turned.head_dim);
      }
      return error(kPrepare, "{} has head_dim {}, the spec wants {}", name, operand.head_dim, turned.head_dim);
    }
    if (operand.rotary_offset < 0 || operand.rotary_offset > operand.head_dim - turned.width) {
      return error(kPrepare, "rotary_width {} at {} does not fit {}'s head_dim {}", turned.width, operand.rotary_offset, name,
                   operand.head_dim);
    }
    if (turned.heads != 1 && operand.heads != turned.heads) {
      return error(kPrepare, "{} has {} heads, wanted {}: each turns by its own", name, operand.heads, turned.heads);
    }
  }
  return {};
}

/// The rotation by given tables.
Status fill_tables(const PrepareCall& call, const NamedTensor& first, PrepareJob& job) {
  const PrepareRotation& rotation = call.rotation;
  if (!rotation.rotaries.empty()) return error(kPrepare, "rotaries and tables are given, wanted one of them");
  if (!is_there(rotation.cos) || !is_there(rotation.sin)) return error(kPrepare, "one of cos and sin is given, wanted both");
  const ConstTensorView& k = call.inputs.k;
  // The layout is k's: q may have wider heads, turned elsewhere.
  const std::int64_t head_dim = is_there(k) ? k.shape[3] : first.view.shape[3];
  Result<RotateJob> turn = make_rotation(kPrepare, {rotation.cos, rotation.sin, rotation.layout}, first, head_dim, call.direction);
  if (!turn.ok()) return turn.status();
  job.turn = *turn;
  return {};
}

Status fill_rotation(const PrepareCall& call, const NamedTensor& named, PrepareJob& job) {
  const ConstTensorView& first = named.view;
  job.turn.batch = first.shape[0];
  job.turn.tokens = first.shape[1];
  job.turn.dtype = first.dtype;
  job.turn.device = first.device;
  if (has_tables(call.rotation)) return fill_tables(call, named, job);
  if (call.rotation.rotaries.empty()) {
    if (call.spec.q_rotary_offset.has_value())
      return error(kPrepare, "q_rotary_offset is given and nothing rotates, wanted a rotary or tables");
    return {};
  }
  Result<RotateJob> turn = make_rotation(kPrepare, call.rotation.rotaries[0].plan(), call.rotation.positions,
                                         {first.shape[0], first.shape[1], 1, first.device}, first.dtype, call.direction);
  if (!turn.ok()) return turn.status();
  job.turn = *turn;
  return {};
}

PlaceSource places_of(const PrepareOutputs& outputs) {
  const TokenPlaces& places = outputs.places;
  const CacheParts& cache = outputs.k.count > 0 ? outputs.k : outputs.v;
  PlaceSource source;
  if (cache.count == 0) return source;  // nobody is placed: lists are not read
  source.kind = places.kind;
  source.block = cache.count > 0 ? cache.parts[0].shape[at(CacheAxis::token)] : 1;
  const auto block = static_cast<std::uint64_t>(source.block);
  source.block_shift = std::has_single_bit(block) ? std::countr_zero(block) : -1;
  for (const CacheParts* out : {&outputs.k, &outputs.v}) {
    for (int p = 0; p < out->count; ++p) {
      const std::int64_t blocks = out->parts[static_cast<std::size_t>(p)].shape[at(CacheAxis::block)];
      source.blocks = source.blocks == 0 ? blocks : std::min(source.blocks, blocks);
    }
  }
  source.checked = places.on_gpu == TokenPlaces::OnGpu::checked;
  source.starts = source_of(places.starts);
  source.slots = source_of(places.slots);
  source.indptr = source_of(places.indptr);
  source.indices = source_of(places.indices);
  source.requests = source_of(places.requests);
  source.places = source_of(places.places);
  source.pages_per_request = places.pages_per_request;
  return source;
}

/// Parts and caches of one call have blocks of one size, since one list says where tokens lie.
Status check_blocks(const PrepareOutputs& outputs, std::int64_t block) {
  if (outputs.places.kind == TokenPlaces::Kind::in_order && outputs.places.starts.data == nullptr) return {};
  for (const CacheParts* cache : {&outputs.k, &outputs.v}) {
    for (int p = 0; p < cache->count; ++p) {
      const std::int64_t is = cache->parts[static_cast<std::size_t>(p)].shape[at(CacheAxis::token)];
      if (is != block) return error(kPrepare, "caches have blocks of {} and {} tokens, wanted one size", block, is);
    }
  }
  return {};
}

/// Every tensor of the call, and whether something is missing.
Status check_tensors(const PrepareCall& call, const std::array<PreparedTensor, 3>& tensors, const ConstTensorView& first) {
  for (const PreparedTensor& tensor : tensors) {
    const bool there = is_there(tensor.in);
    if (tensor.out.count < 0 || tensor.out.count > static_cast<int>(tensor.out.parts.size())) {
      return error(kPrepare, "the output of {} has {} parts, wanted 1 or {}", tensor.name, tensor.out.count, tensor.out.parts.size());
    }
    if (!there && tensor.norm.kind != HeadNorm::Kind::none) return error(kPrepare, "{} has a norm and is not given", tensor.name);
    if (there != (tensor.out.count > 0)) {
      return error(kPrepare, "{} is {}", tensor.name,
                   there ? "given and has no output, wanted one" : "not given and has an output, wanted both");
    }
    if (!there) continue;
    if (Status s = check_tensor(tensor, first); !s) return s;
    const bool turned = *tensor.name != 'v' && turns(call.rotation);
    if (Status s = check_norm(tensor, turned && call.spec.order == PrepareSpec::Order::rotation_first); !s) return s;
    if (is_empty(tensor.in)) continue;
    if (Status s = check_parts(tensor, call.outputs.places); !s) return s;
  }
  return {};
}

void fill_steps(const PrepareCall& call, PrepareJob& job) {
  job.device = job.turn.device;
  job.rotation_first = call.spec.order == PrepareSpec::Order::rotation_first;
  job.kept = call.spec.between == PrepareSpec::Between::kept;
  job.query_scale = call.spec.query_scale;
  const ConstTensorView& factors = call.inputs.query_factors;
  job.query_factors = static_cast<const float*>(factors.data);
  job.factor_strides[0] = factors.strides[0];
  job.factor_strides[1] = factors.strides[1];
  job.places = places_of(call.outputs);
}

}  // namespace

PrepareSink sink_of(const CacheView& cache) {
  const std::int64_t size = bytes_of(cache.storage);
  PrepareSink sink;
  sink.data = static_cast<std::byte*>(cache.data) + cache.layer * cache.strides[at(CacheAxis::layer)] * size;
  sink.storage = cache.storage;
  sink.first = cache.first_channel;
  sink.inner = cache.shape[at(CacheAxis::inner)];
  sink.count = cache.shape[at(CacheAxis::outer)] * sink.inner;
  constexpr CacheAxis kOrder[] = {CacheAxis::block, CacheAxis::token, CacheAxis::head, CacheAxis::outer, CacheAxis::inner};
  for (int i = 0; i < 5; ++i) sink.strides[i] = cache.strides[at(kOrder[i])] * size;
  const CacheScales& scales = cache.scales;
  const std::int64_t scale_size = scales.encoding == CacheScales::Encoding::ue8m0 ? 1 : 4;
  sink.scales = scales.kind;
  sink.multiplies = scales.use == CacheScales::Use::multiply;
  sink.powers_of_two = scales.encoding == CacheScales::Encoding::ue8m0;
  sink.scale = scales.value;
  sink.scale_data = static_cast<std::byte*>(scales.data);
  for (std::size_t i = 0; i < 4; ++i) sink.scale_strides[i] = scales.strides[i] * scale_size;
  sink.group = scales.group == 0 ? sink.count : scales.group;
  sink.least_scale = scales.least;
  return sink;
}

Result<PrepareJob> make_prepare_job(const PrepareCall& call, std::span<RowSource> rows) {
  const std::array<PreparedTensor, 3> tensors = tensors_of(call);
  const ConstTensorView* first = nullptr;
  const char* name = nullptr;
  for (const PreparedTensor& tensor : tensors) {
    if (first != nullptr || !is_there(tensor.in)) continue;
    first = &tensor.in;
    name = tensor.name;
  }
  if (first == nullptr)
    return error(kPrepare,
                 "neither q nor k nor v is given, wanted one at least (unpack_qkv gives none where the row is not what it wants)");
  if (Status s = check_spec(call.spec); !s) return s;
  if (Status s = check_tensors(call, tensors, *first); !s) return s;
  if (Status s = check_factors(call.inputs.query_factors, *first); !s) return s;
  Result<PrepareJob> job(std::in_place);
  if (Status s = fill_rotation(call, {name, *first}, *job); !s) return s;
  fill_steps(call, *job);
  for (const PreparedTensor& tensor : tensors) {
    if (is_there(tensor.in)) job->operands[job->operand_count++] = operand_of(tensor, *job);
  }
  if (turns(call.rotation)) {
    if (Status s = place_rotation(call, *job); !s) return s;
  }
  if (!call.rotation.rotaries.empty()) {
    const PositionShape shape = {first->shape[0], first->shape[1], 1, job->device};
    const PrepareRotation& rotation = call.rotation;
    const SpecsCall specs = {kPrepare, rotation.rotaries, rotation.spec_of, rotation.positions, shape, job->turn.dtype, call.direction};
    if (Status s = fill_specs(specs, rows, job->specs); !s) return s;
  }
  if (is_empty(*first)) return job;
  if (Status s = check_blocks(call.outputs, job->places.block); !s) return s;
  if (Status s = check_places(call, *job); !s) return s;
  if (Status s = check_apart(call); !s) return s;
  return job;
}

}  // namespace phasor::job
