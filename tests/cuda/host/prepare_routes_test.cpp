// SPDX-License-Identifier: Apache-2.0
// Which kernels a call of prepare_attention goes to on CUDA: calls that are right for one, and what of them is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "backend/replaced.hpp"
#include "cuda/host/prepare_on_host.hpp"
#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

job::PrepareJob captured;
Status capture(job::PrepareJob& job, const Execution& /*execution*/) {
  captured = job;
  return {};
}
/// The job of a call whose memory lives as long as the tests.
job::PrepareJob job_of(const PrepareInputs& inputs, const Rotary& rotary, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  const ReplacedBackend replaced([](backend::Backend& backend) { backend.prepare = capture; });
  const Status status = prepare_attention(inputs, {{&rotary, 1}, positions_from(5), {}}, outputs, spec);
  EXPECT_TRUE(status.ok()) << status.message();
  return captured;
}

/// Memory of a tensor or a cache, aligned as allocations are.
void* memory(std::size_t number) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  static std::vector<std::byte> all(9 * kBytes);
  const auto first = reinterpret_cast<std::uintptr_t>(all.data());
  return all.data() + (256 - first % 256) + number * kBytes;
}
TensorView heads(std::size_t number, std::int64_t count, std::int64_t head_dim) {
  const Extents shape = {2, 3, count, head_dim};
  return {memory(number), DType::bf16, shape, contiguous_strides(shape)};
}
TokenPlaces slots() {
  static const std::vector<std::int64_t> list = {3, 7, 8, 9, 10, 40};
  return {.kind = TokenPlaces::Kind::slots, .slots = integers(list.data(), 6)};
}

/// q, k and v of models: by plain kernels, values by channels or not.
job::PrepareJob plain_job(bool by_channels, Storage storage = Storage::bf16) {
  static const Rotary rotary = *Rotary::make({.head_dim = 128});
  const TensorView q = heads(0, 4, 128);
  const TensorView k = heads(1, 2, 128);
  const TensorView v = heads(2, 2, 128);
  const CacheShape shape = {4, 16, 2, 128};
  PrepareOutputs outputs = {tensor_cache(q), contiguous_cache(memory(3), storage, shape), contiguous_cache(memory(4), storage, shape),
                            slots()};
  if (by_channels) outputs.v = vllm_value_cache(memory(4), storage, shape);
  PrepareSpec spec;
  spec.q_norm = {.kind = HeadNorm::Kind::rms, .cast = HeadNorm::Cast::before_weight};
  spec.q_norm.weight = ConstTensorView(memory(5), DType::bf16, {1, 1, 1, 128}, {0, 0, 0, 1});
  return job_of({q, k, v, {}}, rotary, outputs, spec);
}
/// MLA: q of 192 channels, k of 576 into 656 bytes.
job::PrepareJob latent_job() {
  static const Rotary rotary = *Rotary::make({.head_dim = 576, .rotary_width = 64, .rotary_offset = 512, .pairing = Pairing::interleaved});
  const TensorView q = heads(6, 4, 192);
  PrepareSpec spec;
  spec.q_rotary_offset = 128;
  spec.k_norm = {.kind = HeadNorm::Kind::rms, .width = 512};
  spec.k_norm.weight = ConstTensorView(memory(5), DType::bf16, {1, 1, 1, 512}, {0, 0, 0, 1});
  return job_of({q, heads(7, 1, 576), {}, {}}, rotary, {tensor_cache(q), mla_656_cache(memory(8), 4, 16), {}, slots()}, spec);
}

/// DeepSeek: what is turned of q, k of 576 channels into 656 bytes or plain rows.
job::PrepareJob plain_latent_job(bool by_groups) {
  static const Rotary rotary = *Rotary::make({.head_dim = 576, .rotary_width = 64, .rotary_offset = 512, .pairing = Pairing::interleaved});
  const TensorView q = heads(6, 4, 64);
  PrepareSpec spec;
  spec.q_rotary_offset = 0;
  spec.k_norm = {.kind = HeadNorm::Kind::rms, .cast = HeadNorm::Cast::before_weight, .width = 512};
  spec.k_norm.weight = ConstTensorView(memory(5), DType::bf16, {1, 1, 1, 512}, {0, 0, 0, 1});
  const CacheParts cache =
      by_groups ? mla_656_cache(memory(8), 4, 16) : CacheParts(contiguous_cache(memory(8), Storage::bf16, {4, 16, 1, 576}));
  return job_of({q, heads(7, 1, 576), {}, {}}, rotary, {tensor_cache(q), cache, {}, slots()}, spec);
}

struct Spoiled {
  const char* by;
  std::function<void(job::PrepareJob&)> spoil;
};
template <class Is>
void expect_left_alone(const job::PrepareJob& sound, const Is& is, const std::vector<Spoiled>& cases) {
  EXPECT_TRUE(is(sound));
  for (const Spoiled& one : cases) {
    job::PrepareJob job = sound;
    one.spoil(job);
    EXPECT_FALSE(is(job)) << one.by;
  }
}
job::PrepareSink& values(job::PrepareJob& job) { return job.operands[2].sinks[0]; }
job::PrepareSink& keys(job::PrepareJob& job) { return job.operands[1].sinks[0]; }

TEST(PrepareRoutes, values_by_channels_are_cells_of_eight_tokens) {
  // Strides are of block, token, head, outer, inner (here the channel).
  std::vector<Spoiled> cases = {
      {"memory one element on", [](job::PrepareJob& j) { values(j).data += bytes_of(values(j).storage); }},
      {"memory half a cell on", [](job::PrepareJob& j) { values(j).data += 4 * bytes_of(values(j).storage); }},
      {"blocks that are not whole cells apart", [](job::PrepareJob& j) { values(j).strides[0] += bytes_of(values(j).storage); }},
      {"heads that are not whole cells apart", [](job::PrepareJob& j) { values(j).strides[2] += 4 * bytes_of(values(j).storage); }},
      {"blocks of 12 tokens", [](job::PrepareJob& j) { values(j).strides[4] = 12 * bytes_of(values(j).storage); }},
      {"tokens that are apart", [](job::PrepareJob& j) { values(j).strides[1] *= 2; }},
      {"tokens the other way", [](job::PrepareJob& j) { values(j).strides[1] *= -1; }},
      {"channels the other way", [](job::PrepareJob& j) { values(j).strides[4] *= -1; }},
      {"channels that are neighbours, too", [](job::PrepareJob& j) { values(j).strides[4] = bytes_of(values(j).storage); }},
      {"channels in steps", [](job::PrepareJob& j) { values(j).inner = 8; }},
      {"e5m2", [](job::PrepareJob& j) { values(j).storage = Storage::f8_e5m2; }},
      {"f32", [](job::PrepareJob& j) { values(j).storage = Storage::f32; }},
      {"made scales", [](job::PrepareJob& j) { values(j).scales = CacheScales::Kind::made; }},
      {"a rotation", [](job::PrepareJob& j) { j.operands[2].turns = true; }},
      {"a norm", [](job::PrepareJob& j) { j.operands[2].norm.kind = HeadNorm::Kind::rms; }},
      {"a factor", [](job::PrepareJob& j) { j.operands[2].scales = true; }},
      {"tokens in order", [](job::PrepareJob& j) { j.operands[2].placed = false; }},
      {"tensors of f32", [](job::PrepareJob& j) { j.turn.dtype = DType::f32; }},
  };
  expect_left_alone(plain_job(true), cuda::has_columns, cases);
  cases.push_back({"a scale for each head", [](job::PrepareJob& j) {
                     values(j).scales = CacheScales::Kind::given;
                     values(j).scale_data = values(j).data;
                   }});
  cases.push_back({"steps that are not rounded", [](job::PrepareJob& j) { j.kept = true; }});
  expect_left_alone(plain_job(true, Storage::f8_e4m3), cuda::has_columns, cases);
  job::PrepareJob one_head = plain_job(true);
  one_head.operands[2].heads = 1;
  values(one_head).strides[2] = 3;  // nobody steps so far
  EXPECT_TRUE(cuda::has_columns(one_head));
}

TEST(PrepareRoutes, vectors_are_written_where_all_are_aligned) {
  const auto by_vectors = [](const job::PrepareJob& job) { return cuda::squad_operand(job, job.operands[1]).by_vectors; };
  std::vector<Spoiled> cases = {
      {"memory half a vector on", [](job::PrepareJob& j) { keys(j).data += 4 * bytes_of(keys(j).storage); }},
      {"channels that are apart", [](job::PrepareJob& j) { keys(j).strides[4] *= 2; }},
      {"channels the other way", [](job::PrepareJob& j) { keys(j).strides[4] *= -1; }},
      {"steps of four channels", [](job::PrepareJob& j) { keys(j).inner = 4; }},
      {"another storage", [](job::PrepareJob& j) { keys(j).storage = Storage::f32; }},
  };
  for (int axis = 0; axis < 4; ++axis) {
    cases.push_back(
        {"half a vector between neighbours", [axis](job::PrepareJob& j) { keys(j).strides[axis] += 4 * bytes_of(keys(j).storage); }});
  }
  expect_left_alone(plain_job(false), by_vectors, cases);
  expect_left_alone(plain_job(false, Storage::i8), by_vectors, cases);
  job::PrepareJob half = plain_job(false);
  keys(half).data += 8;
  EXPECT_FALSE(by_vectors(half));
  half = plain_job(false, Storage::f8_e4m3);
  keys(half).data += 8;  // eight codes are eight bytes
  EXPECT_TRUE(by_vectors(half));
}

TEST(PrepareRoutes, squads_leave_what_their_threads_cannot_hold) {
  const std::vector<Spoiled> cases = {
      {"rotation first", [](job::PrepareJob& j) { j.rotation_first = true; }},
      {"heads of 96", [](job::PrepareJob& j) { j.operands[0].head_dim = 96; }},
      {"heads of two widths", [](job::PrepareJob& j) { j.operands[1].head_dim = 64; }},
      {"input two bytes on", [](job::PrepareJob& j) { j.operands[0].in += 2; }},
      {"input half a vector on", [](job::PrepareJob& j) { j.operands[0].in += 8; }},
      {"batch rows that are not whole vectors apart", [](job::PrepareJob& j) { j.operands[0].in_strides[0] += 2; }},
      {"tokens that are not whole vectors apart", [](job::PrepareJob& j) { j.operands[0].in_strides[1] += 8; }},
      {"batch rows the other way", [](job::PrepareJob& j) { j.operands[0].in_strides[0] *= -1; }},
      {"tokens the other way", [](job::PrepareJob& j) { j.operands[0].in_strides[1] *= -1; }},
      {"heads the other way", [](job::PrepareJob& j) { j.operands[0].in_strides[2] *= -1; }},
      {"heads far apart", [](job::PrepareJob& j) { j.operands[0].in_strides[2] = std::int64_t{1} << 31; }},
      {"a cache's heads the other way", [](job::PrepareJob& j) { keys(j).strides[2] *= -1; }},
      {"a cache's heads far apart", [](job::PrepareJob& j) { keys(j).strides[2] = std::int64_t{1} << 31; }},
      {"a cache's channels the other way", [](job::PrepareJob& j) { keys(j).strides[4] *= -1; }},
      {"steps of 12 channels", [](job::PrepareJob& j) { keys(j).inner = 12; }},
      {"two parts", [](job::PrepareJob& j) { j.operands[1].sink_count = 2; }},
      {"some channels", [](job::PrepareJob& j) { keys(j).count = 64; }},
      {"channels from the eighth on", [](job::PrepareJob& j) { keys(j).first = 8; }},
      {"another dtype", [](job::PrepareJob& j) { keys(j).storage = Storage::f16; }},
      {"scales of some channels",
       [](job::PrepareJob& j) {
         keys(j).storage = Storage::i8;
         keys(j).scales = CacheScales::Kind::made;
         keys(j).group = 64;
       }},
      {"a norm over all heads", [](job::PrepareJob& j) { j.operands[0].norm.over_all_heads = true; }},
      {"a norm of some channels", [](job::PrepareJob& j) { j.operands[0].norm.width = 64; }},
      {"weights two bytes on", [](job::PrepareJob& j) { j.operands[0].norm.weight += 2; }},
      {"weights of another dtype", [](job::PrepareJob& j) { j.operands[0].norm.weight_dtype = DType::f16; }},
      {"weights of heads that are not whole vectors apart", [](job::PrepareJob& j) { j.operands[0].norm.weight_head_stride = 8; }},
      {"halves from channel 8 on", [](job::PrepareJob& j) { j.operands[0].rotary_offset = 8; }},
      {"48 pairs", [](job::PrepareJob& j) { j.turn.pairs = 48; }},
      {"pairing to pairing", [](job::PrepareJob& j) { j.turn.write = Pairing::interleaved; }},
      {"segments", [](job::PrepareJob& j) { j.turn.segments = 2; }},
      {"a profile that turns all", [](job::PrepareJob& j) { j.turn.turns_all = true; }},
      {"a profile that rounds", [](job::PrepareJob& j) { j.turn.rounds_products = true; }},
      {"heads with ladders", [](job::PrepareJob& j) { j.turn.rows.step_head_stride = 64; }},
      {"lanes with ladders", [](job::PrepareJob& j) { j.turn.rows.step_lane_stride = 64; }},
      {"positions the other way", [](job::PrepareJob& j) { j.turn.rows.positions.token_stride = -1; }},
      {"fractional positions",
       [](job::PrepareJob& j) {
         static const double position = 0;
         j.turn.rows.positions.data = &position;
         j.turn.rows.positions.type = PositionType::f64;
       }},
      {"more batch rows than a grid has", [](job::PrepareJob& j) { j.turn.batch = 65536; }},
      {"more tokens than a grid has", [](job::PrepareJob& j) { j.turn.tokens = std::int64_t{1} << 31; }},
  };
  expect_left_alone(plain_job(false), cuda::is_for_squads, cases);
}

TEST(PrepareRoutes, plain_calls_are_the_most_common_ones) {
  const auto is_plain = [](const job::PrepareJob& job) { return cuda::is_plain(cuda::squad_work(job)); };
  const std::vector<Spoiled> cases = {
      {"keys half a vector on", [](job::PrepareJob& j) { keys(j).data += 4 * bytes_of(keys(j).storage); }},
      {"tables", [](job::PrepareJob& j) { j.turn.rows.kind = job::RowSource::Kind::tables; }},
      {"steps that are not rounded", [](job::PrepareJob& j) { j.kept = true; }},
      {"32 pairs", [](job::PrepareJob& j) { j.turn.pairs = 32; }},
      {"neighbours as pairs", [](job::PrepareJob& j) { j.turn.read = j.turn.write = Pairing::interleaved; }},
      {"heads of 64", [](job::PrepareJob& j) { j.operands[2].head_dim = 64; }},
      {"a factor", [](job::PrepareJob& j) { j.operands[0].scales = true; }},
      {"l2", [](job::PrepareJob& j) { j.operands[0].norm.kind = HeadNorm::Kind::l2; }},
      {"a norm without weights", [](job::PrepareJob& j) { j.operands[0].norm.weight = nullptr; }},
      {"weights of each head", [](job::PrepareJob& j) { j.operands[0].norm.weight_head_stride = 256; }},
      {"weights of f32", [](job::PrepareJob& j) { j.operands[0].norm.weight_dtype = DType::f32; }},
      {"1 + w", [](job::PrepareJob& j) { j.operands[0].norm.one_plus = true; }},
      {"a cast after the weight", [](job::PrepareJob& j) { j.operands[0].norm.casts_before_weight = false; }},
      {"e5m2", [](job::PrepareJob& j) { keys(j).storage = Storage::f8_e5m2; }},
      {"made scales",
       [](job::PrepareJob& j) {
         keys(j).storage = Storage::f8_e4m3;
         keys(j).scales = CacheScales::Kind::made;
       }},
      {"a scale for each head",
       [](job::PrepareJob& j) {
         keys(j).storage = Storage::f8_e4m3;
         keys(j).scales = CacheScales::Kind::given;
         keys(j).scale_data = keys(j).data;
       }},
  };
  expect_left_alone(plain_job(false), is_plain, cases);
  expect_left_alone(plain_job(false, Storage::f8_e4m3), is_plain, {cases[0], cases[2], cases[12]});
  job::PrepareJob scaled = plain_job(false);
  keys(scaled).scales = CacheScales::Kind::given;  // of what is not 8 bits
  EXPECT_FALSE(is_plain(scaled));
}

TEST(PrepareRoutes, latent_calls_have_one_wide_head_of_whole_vectors) {
  std::vector<Spoiled> cases = {
      {"tensors of f32", [](job::PrepareJob& j) { j.turn.dtype = DType::f32; }},
      {"rotation first", [](job::PrepareJob& j) { j.rotation_first = true; }},
      {"two wide heads", [](job::PrepareJob& j) { j.operands[1].heads = 2; }},
      {"a head of 580", [](job::PrepareJob& j) { j.operands[1].head_dim = 580; }},
      {"a head of 1032", [](job::PrepareJob& j) { j.operands[1].head_dim = 1032; }},
      {"input half a vector on", [](job::PrepareJob& j) { j.operands[1].in += 8; }},
      {"tokens the other way", [](job::PrepareJob& j) { j.operands[1].in_strides[1] *= -1; }},
      {"a factor on the wide head", [](job::PrepareJob& j) { j.operands[1].scales = true; }},
      {"a norm of 12 channels", [](job::PrepareJob& j) { j.operands[1].norm.width = 12; }},
      {"weights of another dtype", [](job::PrepareJob& j) { j.operands[1].norm.weight_dtype = DType::f16; }},
      {"weights two bytes on", [](job::PrepareJob& j) { j.operands[1].norm.weight += 2; }},
      {"halves", [](job::PrepareJob& j) { j.turn.read = j.turn.write = Pairing::half; }},
      {"pairs from channel 508 on", [](job::PrepareJob& j) { j.operands[1].rotary_offset = 508; }},
      {"30 pairs", [](job::PrepareJob& j) { j.turn.pairs = 30; }},
      {"parts of one channel", [](job::PrepareJob& j) { j.operands[1].sinks[1].first = 504; }},
      {"a part from channel 4 on", [](job::PrepareJob& j) { keys(j).first = 4; }},
      {"a part of 508 channels", [](job::PrepareJob& j) { keys(j).count = 508; }},
      {"groups of 12 channels", [](job::PrepareJob& j) { keys(j).group = 12; }},
      {"a part of f16", [](job::PrepareJob& j) { j.operands[1].sinks[1].storage = Storage::f16; }},
      {"a scaled part of 16 bits", [](job::PrepareJob& j) { j.operands[1].sinks[1].scales = CacheScales::Kind::given; }},
      {"queries with a norm", [](job::PrepareJob& j) { j.operands[0].norm.kind = HeadNorm::Kind::rms; }},
      {"queries of 8 bits", [](job::PrepareJob& j) { j.operands[0].sinks[0].storage = Storage::f8_e4m3; }},
      {"scaled queries", [](job::PrepareJob& j) { j.operands[0].sinks[0].scales = CacheScales::Kind::given; }},
      {"queries in two parts", [](job::PrepareJob& j) { j.operands[0].sink_count = 2; }},
      {"queries of 188 channels", [](job::PrepareJob& j) { j.operands[0].head_dim = 188; }},
      {"results the other way", [](job::PrepareJob& j) { j.operands[0].sinks[0].strides[2] *= -1; }},
      {"fractional positions",
       [](job::PrepareJob& j) {
         static const double position = 0;
         j.turn.rows.positions.data = &position;
         j.turn.rows.positions.type = PositionType::f64;
       }},
      {"more vectors than 2^20", [](job::PrepareJob& j) { j.operands[0].heads = 1 << 16; }},
  };
  expect_left_alone(latent_job(), cuda::is_latent, cases);
  job::PrepareJob wide_group = latent_job();
  keys(wide_group).group = 516;  // all of the part's
  EXPECT_TRUE(cuda::is_latent(wide_group));
}

bool is_plain_latent(const job::PrepareJob& job) { return cuda::is_latent(job) && cuda::is_plain_latent(job); }

TEST(PrepareRoutes, plain_calls_of_mla_have_heads_of_known_channels) {
  const std::vector<Spoiled> cases = {
      {"a norm of another kind", [](job::PrepareJob& j) { j.operands[1].norm.kind = HeadNorm::Kind::l2; }},
      {"a norm of 504 channels", [](job::PrepareJob& j) { j.operands[1].norm.width = 504; }},
      {"weights and one", [](job::PrepareJob& j) { j.operands[1].norm.one_plus = true; }},
      {"wide weights", [](job::PrepareJob& j) { j.operands[1].norm.weight_dtype = DType::f32; }},
      {"no weights", [](job::PrepareJob& j) { j.operands[1].norm.weight = nullptr; }},
      {"a cast behind the weights", [](job::PrepareJob& j) { j.operands[1].norm.casts_before_weight = false; }},
      {"steps that are not rounded", [](job::PrepareJob& j) { j.kept = true; }},
      {"24 pairs", [](job::PrepareJob& j) { j.turn.pairs = 24; }},
      {"tables", [](job::PrepareJob& j) { j.turn.rows.kind = job::RowSource::Kind::tables; }},
      {"axes", [](job::PrepareJob& j) { j.turn.rows.axis_of_pair = reinterpret_cast<const std::uint8_t*>(&j); }},
      {"pairs from channel 504 on", [](job::PrepareJob& j) { j.operands[1].rotary_offset = 504; }},
      {"a key that is not turned", [](job::PrepareJob& j) { j.operands[1].turns = false; }},
      {"a key without a cache", [](job::PrepareJob& j) { j.operands[1].placed = false; }},
      {"queries of 72 channels", [](job::PrepareJob& j) { j.operands[0].head_dim = j.operands[0].sinks[0].count = 72; }},
      {"queries that are not turned", [](job::PrepareJob& j) { j.operands[0].turns = false; }},
      {"queries with a factor", [](job::PrepareJob& j) { j.operands[0].scales = true; }},
      {"queries in a cache", [](job::PrepareJob& j) { j.operands[0].placed = true; }},
      {"queries in steps", [](job::PrepareJob& j) { j.operands[0].sinks[0].inner = 8; }},
      {"tokens in order", [](job::PrepareJob& j) { j.places.kind = TokenPlaces::Kind::in_order; }},
      {"blocks of 12 tokens", [](job::PrepareJob& j) { j.places.block_shift = -1; }},
      {"keys in steps", [](job::PrepareJob& j) { keys(j).inner = 8; }},
      {"keys of 8 bits with one scale",
       [](job::PrepareJob& j) {
         keys(j).storage = Storage::f8_e4m3;
         keys(j).scales = CacheScales::Kind::given;
       }},
  };
  expect_left_alone(plain_latent_job(true), is_plain_latent, cases);
  expect_left_alone(plain_latent_job(false), is_plain_latent, cases);
  expect_left_alone(plain_latent_job(true), is_plain_latent,
                    {{"groups of 64 channels", [](job::PrepareJob& j) { keys(j).group = 64; }},
                     {"scales that are powers of two", [](job::PrepareJob& j) { keys(j).powers_of_two = true; }},
                     {"scales that are multiplied with", [](job::PrepareJob& j) { keys(j).multiplies = true; }},
                     {"scales that are apart", [](job::PrepareJob& j) { keys(j).scale_strides[3] = 8; }},
                     {"scales beside the cache", [](job::PrepareJob& j) { keys(j).scale_strides[1] = 16; }},
                     {"scales as small as any", [](job::PrepareJob& j) { keys(j).least_scale = 0; }},
                     {"e5m2", [](job::PrepareJob& j) { keys(j).storage = Storage::f8_e5m2; }},
                     {"what is turned elsewhere", [](job::PrepareJob& j) { j.operands[1].sinks[1].strides[1] *= 2; }}});
  job::PrepareJob alone = plain_latent_job(true);
  alone.operands[0] = alone.operands[1];
  alone.operand_count = 1;
  EXPECT_TRUE(is_plain_latent(alone));
}

/// Near 2^31 tokens a step beyond the last one is no int.
TEST(PrepareRoutes, walks_end_at_the_last_of_any_number_of_tokens) {
  job::PrepareJob job = plain_job(false);
  static const std::int64_t places = 5;
  static const std::int64_t pages[] = {0, 1};
  job.places.kind = TokenPlaces::Kind::pages;
  job.places.places = {&places, false, 1};  // those beyond are skipped
  job.places.indices = {pages, false, 2};
  job.places.pages_per_request = 1;
  job.operands[0] = job.operands[1];
  job.operand_count = 1;
  job.turn.batch = 1;
  job.turn.tokens = (std::int64_t{1} << 31) - 1;
  job.operands[0].in_strides[1] = 0;
  cuda::SquadWork work = cuda::squad_work(job);
  ASSERT_TRUE(cuda::is_for_squads(job) && cuda::is_plain(work));
  const cuda::PlainCall call = cuda::plain_call(work, false);
  using Knows = cuda::PlainKnows<DType::bf16, 2, false, false, true>;
  const job::RowSource& rows = job.turn.rows;
  cuda::PlainWalk walk = {};
  HostPlainBlock block{{static_cast<int>(call.launch.threads)}};
  auto* const to = static_cast<std::byte*>(memory(3));
  std::fill_n(to, 1 << 16, std::byte{0x55});
  std::fill_n(static_cast<std::byte*>(memory(1)), 512, std::byte{0x3f});
  cuda::walk_plain<Knows>({&work, {&rows}, rows.steps, rows.axis_of_pair}, {0, 0, 0}, 1 << 28, walk, block);
  const auto written = std::count_if(to, to + (1 << 16), [](std::byte byte) { return byte != std::byte{0x55}; });
  EXPECT_GT(written, 400);
  EXPECT_LE(written, 512);
}

/// What gpu_prepare looks for.
TEST(PrepareRoutes, random_calls_walk_on_gpus_of_up_to_175_multiprocessors) {
  std::uint64_t seed = 1;
  while (seed < 20000 && !PrepareChoices(seed, CallsOf::plain, SizeOf::any).walks_on_gpu()) ++seed;
  const RandomPrepare call(seed, CallsOf::plain);
  Memory8 memory = call.memory();
  const ReplacedBackend replaced([](backend::Backend& backend) { backend.prepare = capture; });
  ASSERT_TRUE(call.run(memory, [](const auto& inputs, const auto& rotation, const auto& outputs,
                                  const auto& spec) { return prepare_attention(inputs, rotation, outputs, spec); })
                  .ok());
  cuda::SquadWork work = cuda::squad_work(captured);
  ASSERT_TRUE(cuda::is_for_squads(captured) && cuda::is_plain(work));
  const cuda::PlainCall plain = cuda::plain_call(work, cuda::has_few_tokens(captured));
  ASSERT_TRUE(cuda::may_walk(work, plain));
  EXPECT_TRUE(cuda::walking_on(plain, std::int64_t{175} * cuda::kWalkPlainBlocks).walks);
}

}  // namespace
}  // namespace phasor::test
