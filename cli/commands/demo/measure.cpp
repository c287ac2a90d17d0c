// SPDX-License-Identifier: Apache-2.0
// Makes the demo's data, checks it, times it.
#include "commands/demo/measure.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "phasor/targets.hpp"

namespace phasor::cli {
namespace {

/// Every task on the calling thread.
constexpr Runner kOneThread{[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
                              for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
                            },
                            nullptr};

Runner runner_of(Threads threads) { return threads == Threads::one ? kOneThread : Runner{}; }

std::int64_t elements(const Extents& shape) { return shape[0] * shape[1] * shape[2] * shape[3]; }

/// SplitMix64: integers alone, so that no machine's arithmetic can change the data.
class Integers {
 public:
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 31;
};

/// Twelve 16-bit integers, summed: nearly normal. Their sum has 20 bits, so that the float32 is exact.
float normal_like(Integers& integers) {
  std::int64_t sum = 0;
  for (int draw = 0; draw < 3; ++draw) {
    for (std::uint64_t bits = integers.next(), part = 0; part < 4; ++part, bits >>= 16) sum += static_cast<std::int64_t>(bits & 0xFFFF);
  }
  return static_cast<float>(sum - 6 * 0xFFFF) * 0x1p-16F;
}

void store(std::byte* to, DType dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto high = static_cast<std::uint16_t>(bits >> 16);  // bf16 by cutting: any finite 16 bits will do as data
  const double wide = value;
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, &bits, sizeof bits);
      break;
    case DType::f64:
      std::memcpy(to, &wide, sizeof wide);
      break;
    case DType::f16:
    case DType::bf16:
      std::memcpy(to, &high, sizeof high);
      break;
  }
}

Status rotate(const Rotary& rotary, Sample& sample, std::int64_t position, Threads threads) {
  return rotary.apply(sample.q(), sample.k(), positions_from(position), {.execution = {.runner = runner_of(threads)}});
}

template <class Work>
double milliseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

/// Goes back to the target of the environment at the end of a scope.
struct TargetGuard {
  TargetGuard() = default;
  TargetGuard(const TargetGuard&) = delete;
  TargetGuard& operator=(const TargetGuard&) = delete;
  ~TargetGuard() { (void)force_target(""); }
};

}  // namespace

TensorView Sample::k() { return {memory.data() + elements(q_shape) * bytes_of(dtype), dtype, k_shape, contiguous_strides(k_shape)}; }

Sample make_sample(DType dtype, const Extents& q_shape, const Extents& k_shape) {
  Sample sample{dtype, q_shape, k_shape, {}};
  const auto bytes = static_cast<std::size_t>(bytes_of(dtype));
  sample.memory.resize(static_cast<std::size_t>(elements(q_shape) + elements(k_shape)) * bytes);
  Integers integers;
  for (std::size_t i = 0; i < sample.memory.size(); i += bytes) store(&sample.memory[i], dtype, normal_like(integers));
  return sample;
}

Result<bool> same_bits_everywhere(const Rotary& rotary, const Sample& sample, std::int64_t position) {
  Sample wanted = sample;
  const Status status = rotate(rotary, wanted, position, Threads::one);
  if (!status.ok()) return status;
  const TargetGuard guard;
  for (const auto target : targets()) {
    Sample other = sample;
    Status made = force_target(target);
    if (made.ok()) made = rotate(rotary, other, position, Threads::default_runner);
    if (!made.ok()) return made;
    if (other.memory != wanted.memory) return false;
  }
  return true;
}

Result<Speed> measure_speed(const Rotary& rotary, Sample sample, Threads threads, std::int64_t far) {
  std::vector<std::byte> copy(sample.memory.size());
  const auto bytes = static_cast<std::int64_t>(copy.size());
  std::vector<double> near_times;
  std::vector<double> far_times;
  std::vector<double> copy_times;
  Status status;
  for (int round = 0; round <= kRounds && status.ok(); ++round) {
    const double near_time = milliseconds([&] { status = rotate(rotary, sample, 0, threads); });
    if (!status.ok()) break;
    const double far_time = milliseconds([&] { status = rotate(rotary, sample, far, threads); });
    const double copy_time = milliseconds([&] {
      if (threads == Threads::one) {  // whole: large copies have their own way
        std::memcpy(copy.data(), sample.memory.data(), copy.size());
      } else {
        copy_bytes(copy.data(), sample.memory.data(), bytes);
      }
    });
    if (round == 0) continue;
    near_times.push_back(near_time);
    far_times.push_back(far_time);
    copy_times.push_back(copy_time);
  }
  if (!status.ok()) return status;
  return Speed{sample.dtype, threads, bytes, median(near_times), median(far_times), median(copy_times)};
}

}  // namespace phasor::cli
