// SPDX-License-Identifier: Apache-2.0
// Stores past the caches: the same bits as plain ones, and only where every register's store is aligned.
#include <unistd.h>

#include <cstring>
#include <limits>
#include <new>

#include "cpu/rotary/kernels.hpp"
#include "gtest/gtest.h"
#include "plan/rotary.hpp"

namespace phasor::test {
namespace {

struct AlignedBytes {
  explicit AlignedBytes(std::size_t bytes) : size(bytes), data(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}))) {
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 2654435761U >> 13) & 0x3f);  // no NaN, no subnormal f64
  }
  ~AlignedBytes() { ::operator delete(data, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::size_t size;
  std::byte* data;
};

TEST(Streams, give_the_bits_of_plain_stores_on_every_target) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t width : {64, 96, 128}) {
        if (width / 2 * bytes_of(dtype) % 64 != 0) continue;  // cpu::streams would not
        const auto plan = plan::make_rotary_plan({.head_dim = 128, .rotary_width = width, .pairing = pairing});
        ASSERT_TRUE(plan.ok());
        const Extents shape = {2, 5, 3, 128};
        const auto bytes = static_cast<std::size_t>(2 * 5 * 3 * 128 * bytes_of(dtype));
        AlignedBytes in(bytes);
        AlignedBytes streamed(bytes);
        AlignedBytes wanted(bytes);
        const auto job_to = [&](AlignedBytes& out) {
          const InOut q({in.data, dtype, shape, contiguous_strides(shape)}, {out.data, dtype, shape, contiguous_strides(shape)});
          return *job::make_rotate_job({"test", &q, nullptr}, *plan, positions_from(77), Direction::forward);
        };
        const job::RotateJob to_wanted = job_to(wanted);
        const job::RotateJob to_streamed = job_to(streamed);
        const cpu::Running<job::RotateJob> plain = {.job = to_wanted};
        const cpu::Running<job::RotateJob> past = {.job = to_streamed, .stream = true};
        const cpu::RotaryKernelTable table = cpu::rotary_kernels();
        for (int t = 0; t < table.count; ++t) {
          if (!table.entries[t].available()) continue;
          std::memset(streamed.data, 0xff, bytes);
          for (std::int64_t i = 0; i < plain.grid.tasks; ++i) {
            table.entries[t].rotate(plain, i);
            table.entries[t].rotate(past, i);
          }
          EXPECT_EQ(std::memcmp(streamed.data, wanted.data, bytes), 0) << table.entries[t].target << " " << name_of(dtype) << " " << width;
        }
      }
    }
  }
}

/// A job that would stream on any machine: more tokens than memory.
job::RotateJob large_job(std::byte* in, std::byte* out) {
  job::RotateJob job;
  job.operand_count = 1;
  job.operands[0] = {in, out, 32, {0, 32 * 128 * 4, 128 * 4}, {0, 32 * 128 * 4, 128 * 4}};
  job.dtype = DType::f32;
  job.batch = 1;
  job.tokens = std::int64_t{1} << 32;
  job.head_dim = 128;
  job.pairs = 64;
  return job;
}

TEST(Streams, need_a_large_aligned_output_out_of_place) {
  constexpr std::int64_t kLimit = std::int64_t{24} << 20;
  AlignedBytes memory(256);
  const job::RotateJob large = large_job(memory.data, memory.data + 128);
  EXPECT_TRUE(cpu::streams(large, kLimit));
  EXPECT_FALSE(cpu::streams(large, 0)) << "caches of a size that is not known";
  job::RotateJob job = large;
  job.operands[0].out = memory.data + 4;
  EXPECT_FALSE(cpu::streams(job, kLimit)) << "not aligned";
  EXPECT_FALSE(cpu::streams(large_job(memory.data, memory.data), kLimit)) << "in place";
  job = large;
  job.operands[0].out_strides[2] = 130 * 4;
  EXPECT_FALSE(cpu::streams(job, kLimit)) << "heads that are not aligned";
  job = large;
  job.pairs = 24 + 1;
  EXPECT_FALSE(cpu::streams(job, kLimit)) << "halves that are not aligned";
  job = large;
  job.tokens = kLimit / (32 * 128 * 4);
  EXPECT_FALSE(cpu::streams(job, kLimit)) << "what fits";
  ++job.tokens;
  EXPECT_TRUE(cpu::streams(job, kLimit)) << "what fits no more";
}

/// More tokens than memory: on this machine it is a question of what the C library knows of the caches.
TEST(Streams, go_past_the_caches_of_this_machine_where_their_size_is_known) {
  AlignedBytes memory(256);
#if defined(__x86_64__) && defined(_SC_LEVEL3_CACHE_SIZE)
  if (sysconf(_SC_LEVEL3_CACHE_SIZE) > 0) {
    EXPECT_TRUE(cpu::streams(large_job(memory.data, memory.data + 128)));
  }
#endif
#if defined(__aarch64__)
  EXPECT_FALSE(cpu::streams(large_job(memory.data, memory.data + 128))) << "Highway has no such stores";
#endif
  job::RotateJob small = large_job(memory.data, memory.data + 128);
  small.tokens = 1;
  EXPECT_FALSE(cpu::streams(small));
}

TEST(Tables, a_nan_of_any_payload_stays_a_nan_in_bf16) {
  // Rounding to bfloat16 by a carry would make -0 of this one.
  const std::uint32_t bits = 0x7fffffff;
  float nan = 0;
  std::memcpy(&nan, &bits, 4);
  const std::vector<float> cos(64, nan);
  const std::vector<float> sin(64, 0.5F);
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    std::vector<BFloat16> q(128, BFloat16{0x3f80});
    TableLayout layout;
    layout.pairing = pairing;
    ASSERT_TRUE(
        apply_rotary(view(q.data(), {1, 1, 1, 128}), view(cos.data(), {1, 1, 1, 64}), view(sin.data(), {1, 1, 1, 64}), layout).ok());
    for (const BFloat16 x : q) EXPECT_GT(x.bits & 0x7fff, 0x7f80);
  }
}

}  // namespace
}  // namespace phasor::test
