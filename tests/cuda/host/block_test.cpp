// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels compute, run by the host, is what the CPU's kernels compute, bit for bit: random calls of every rotary function.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>

#include "backend/replaced.hpp"
#include "cuda/host/block.hpp"
#include "cuda/random_calls.hpp"
#include "cuda/random_memory.hpp"
#include "cuda/random_moves.hpp"

namespace phasor::test {
namespace {

struct CudaKernels : ReplacedBackend {
  CudaKernels() : ReplacedBackend(replace_rotations) {}

 private:
  static void replace_rotations(backend::Backend& backend) {
    backend.rotate = [](job::RotateJob& job, const Execution& execution) { return rotate_on_host(job, execution); };
    backend.rotate_specs = rotate_specs_on_host;
    backend.rerotate = rerotate_on_host;
    backend.rows = rows_on_host;
  }
};

struct Outcome {
  Status status;
  std::vector<std::vector<std::byte>> buffers;
};
Outcome run(const RandomCall& call) {
  Outcome outcome = {{}, call.buffers};
  std::vector<std::byte*> memory;
  for (auto& buffer : outcome.buffers) memory.push_back(buffer.data());
  outcome.status = call.run(memory, {}, {});
  return outcome;
}

/// Of each kind, `least` or more are compared.
void expect_bits_of_the_cpu(std::uint64_t first, std::uint64_t end, int least) {
  std::map<std::string, int> compared;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const auto call = random_call(seed);
    if (!call) continue;
    const Outcome cpu = run(*call);
    Outcome cuda;
    {
      const CudaKernels kernels;
      cuda = run(*call);
    }
    ASSERT_EQ(cuda.status.message(), cpu.status.message()) << "seed " << seed;
    if (!cpu.status.ok()) continue;
    ++compared[call->name];
    for (std::size_t b = 0; b < cpu.buffers.size(); ++b) {
      ASSERT_EQ(first_difference(*call, b, cuda.buffers[b], cpu.buffers[b]), "") << call->name << ", seed " << seed << ", buffer " << b;
    }
  }
  for (const char* const name : {"rotation", "cos_sin", "tables", "rerotate", "rotaries"}) EXPECT_GE(compared[name], least) << name;
}

/// Shapes of models, whose kernels know more before they run: positions in memory (int64, int32) or counted, with an amplitude or without.
void expect_plain_calls(DType dtype, Pairing pairing, std::int64_t width) {
  RotarySpec spec = {.head_dim = width, .pairing = pairing};
  if (width == 64) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};
  const Rotary rotary = *Rotary::make(spec);
  const std::vector<std::int64_t> wide = {0, 3, std::int64_t{1} << 41, -9, 131071};
  const std::vector<std::int32_t> narrow = {7, 0, -5, 1 << 30, 2};
  const Positions where[] = {positions(wide.data(), 1, 1, 5), positions(narrow.data(), 1, 1, 5), positions_from(123456789)};
  const Extents shape = {1, 5, 7, width};
  std::vector<std::byte> in(static_cast<std::size_t>(5 * 7 * width * bytes_of(dtype)));
  for (std::size_t i = 0; i + 2 <= in.size(); i += 2) {
    const auto bits = static_cast<std::uint16_t>(0x3c00U | (i * 2654435761U >> 13 & 0x83ffU));
    std::memcpy(in.data() + i, &bits, 2);
  }
  for (const Positions& at : where) {
    for (std::size_t kind = 0; kind < std::size(cuda::kTeamKinds); ++kind) {
      std::vector<std::byte> cpu = in;
      std::vector<std::byte> cuda = in;
      const auto apply = [&](std::vector<std::byte>& x) {
        return rotary.apply(TensorView{x.data(), dtype, shape, contiguous_strides(shape)}, at);
      };
      ASSERT_TRUE(apply(cpu).ok());
      const CudaKernels kernels;
      ASSERT_TRUE(apply(cuda).ok());
      ASSERT_EQ(cuda, cpu) << "width " << width << ", kind " << kind;
    }
  }
}

TEST(CudaOnHost, calls_of_models_are_plain_and_give_the_bits_of_the_cpu) {
  team_calls = 0;
  plain_calls = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t width : {64, 128, 256}) expect_plain_calls(dtype, pairing, width);
    }
  }
  EXPECT_EQ(team_calls, 4U * 2 * 3 * 3 * 4);
  EXPECT_EQ(plain_calls, 3U * 2 * 3 * 3 * 2 + 2 * 3 * (3 + 2));  // f64 has wider slices, which are not whole with 32 pairs
}

/// A launch has some of a call's specs: rows of the others, and of none, are left alone.
TEST(CudaOnHost, rows_of_specs_that_a_launch_does_not_have_have_no_source) {
  std::vector<job::RowSource> rows(2);
  const std::vector<std::int32_t> spec_of = {4, 5, 6, 3, -1, 1 << 30};
  const job::SpecList list = {rows.data(), 2, 4, {spec_of.data(), true, 6}, {3, 1}};
  const job::RowSource one;
  const auto at = [&](std::int64_t batch, std::int64_t token) {
    return cuda::rows_at({&list, rows.data(), nullptr}, {&one}, batch, token).source;
  };
  EXPECT_EQ(at(0, 0), rows.data());
  EXPECT_EQ(at(0, 1), rows.data() + 1);
  for (const auto& [batch, token] : {std::pair{0, 2}, {1, 0}, {1, 1}, {1, 2}}) EXPECT_EQ(at(batch, token), nullptr) << batch << token;
  EXPECT_EQ(cuda::rows_at({}, {&one}, 1, 2).source, &one);
}

/// More items than 32 bits count: no memory is that large here, so it is the arithmetic alone.
TEST(CudaOnHost, items_of_a_row_are_counted_in_64_bits) {
  const auto work = std::make_unique<cuda::RotateWork>();
  work->job.operand_count = 2;
  work->job.operands[0].heads = (std::int64_t{1} << 31) + 7;
  work->job.operands[1].heads = 3;
  const cuda::WorkAt at = {work.get(), {}};
  const cuda::RowPart part = {{}, 0, 44};
  constexpr int kWidth = 4;
  const std::int64_t per_head = 11;
  ASSERT_EQ(cuda::items_of<kWidth>(at, part), per_head * ((std::int64_t{1} << 31) + 10));
  for (const std::int64_t head : {std::int64_t{0}, std::int64_t{1}, std::int64_t{390451572}, std::int64_t{390451573}, std::int64_t{1} << 31,
                                  (std::int64_t{1} << 31) + 6, (std::int64_t{1} << 31) + 7, (std::int64_t{1} << 31) + 9}) {
    for (std::int64_t vector = 0; vector < per_head; ++vector) {
      const cuda::Item item = cuda::item_at<kWidth>(at, part, head * per_head + vector);
      const bool of_k = head >= work->job.operands[0].heads;
      EXPECT_EQ(item.operand, of_k ? 1 : 0) << head;
      EXPECT_EQ(item.head, of_k ? head - work->job.operands[0].heads : head);
      EXPECT_EQ(item.pair, vector * kWidth) << head;
    }
  }
}

/// Caches as engines have them. Most have kernels of their own, and some of their blocks have something rare to do.
TEST(CudaOnHost, keys_that_move_have_kernels_of_their_own_and_give_the_bits_of_the_cpu) {
  move_calls = moved_blocks = careful_moves = 0;
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const auto call = random_move(seed, seed % 30 == 0 ? 300 : 0);
    if (!call) continue;
    const Outcome cpu = run(*call);
    const CudaKernels kernels;
    const Outcome cuda = run(*call);
    ASSERT_TRUE(cpu.status.ok()) << cpu.status.message() << ", seed " << seed;
    ASSERT_TRUE(cuda.status.ok()) << cuda.status.message() << ", seed " << seed;
    for (std::size_t b = 0; b < cpu.buffers.size(); ++b) {
      ASSERT_EQ(first_difference(*call, b, cuda.buffers[b], cpu.buffers[b]), "") << "seed " << seed << ", buffer " << b;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 300);
  EXPECT_GE(move_calls, 200U);
  EXPECT_LE(move_calls, 299U);  // what is not aligned has the general one
  EXPECT_GE(careful_moves, 100U);
  EXPECT_GE(moved_blocks, careful_moves + 100);
}

/// Resting keys keep every bit, those of a NaN, too.
TEST(CudaOnHost, keys_that_rest_keep_every_bit) {
  const Rotary rotary = *Rotary::make({.head_dim = 64});
  const Extents shape = {2, 16, 2, 64};
  std::vector<std::uint16_t> cache(2 * 16 * 2 * 64);
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<std::uint16_t>(i * 40503U);
  const std::vector<std::uint16_t> before = cache;
  const std::vector<std::int64_t> slots = {3, 17, 20};
  const std::vector<std::int64_t> at = {0, 9, 1000000};
  const CudaKernels kernels;
  move_calls = 0;
  const TensorView keys = {cache.data(), DType::bf16, shape, contiguous_strides(shape), {}};
  ASSERT_TRUE(rerotate(keys, Slots(slots), {rotary, positions(at.data(), 1, 1, 3)}, {rotary, positions(at.data(), 1, 1, 3)}).ok());
  EXPECT_EQ(move_calls, 1U);
  EXPECT_EQ(cache, before);
}

/// Random calls are worth as much as their positions are far: positions are exact to 2^62.
TEST(CudaOnHost, random_positions_reach_2_to_62_and_no_farther) {
  Draw draw(1);
  Builder builder(draw);
  std::int64_t beyond_61 = 0, at_62 = 0;
  for (int i = 0; i < 4000; ++i) {
    const PlacedPositions at = any_positions(draw, builder, 1, 1, 4);
    std::vector<std::int64_t> list = {at.offset};
    if (at.buffer && at.type != PositionType::i64) continue;
    if (at.buffer) {
      list.resize(4);
      std::memcpy(list.data(), builder.buffers[*at.buffer].data(), 32);
    }
    for (const std::int64_t p : list) {
      ASSERT_TRUE(p >= -kFarthest && p <= kFarthest) << p;
      beyond_61 += p > kFarthest / 2 || p < -kFarthest / 2 ? 1 : 0;
      at_62 += p == kFarthest || p == -kFarthest ? 1 : 0;
    }
  }
  EXPECT_GE(beyond_61, 50);
  EXPECT_GE(at_62, 20);
}

TEST(CudaOnHost, a_known_divisor_divides_every_count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t by : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{16}, std::int64_t{17}, std::int64_t{64},
                                std::int64_t{255}, std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1, kMost}) {
    const cuda::Divisor divisor = cuda::divisor_of(by);
    for (const std::int64_t n :
         {std::int64_t{0}, std::int64_t{1}, by - 1, by, std::int64_t{1} << 32, kMost / by * by - 1, kMost / by * by, kMost - 1, kMost}) {
      EXPECT_EQ(cuda::divided(n, divisor), n / by) << n << " / " << by;
    }
  }
}

TEST(CudaOnHost, random_calls_give_the_bits_of_the_cpu) { expect_bits_of_the_cpu(1, 240, 10); }

TEST(CudaOnHost, thousands_of_random_calls_give_the_bits_of_the_cpu) {
  team_calls = 0;
  parted_launches = 0;
  row_walk_calls = row_double_calls = 0;
  expect_bits_of_the_cpu(240, 4000, 100);
  EXPECT_GE(team_calls, 400U);  // of each kind of team a hundred
  EXPECT_GE(parted_launches, 40U);
  EXPECT_GE(row_walk_calls, 40U);
  EXPECT_GE(row_double_calls, 40U);
}

}  // namespace
}  // namespace phasor::test
