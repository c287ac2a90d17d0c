// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: random problems against a naive reference in double, and what must be the same bits. `gpu_hopper [PROBLEMS
// [FIRST [long | values | features | sides]]]` exits non-zero where something differs; of one kind alone: with tables as long as the call,
// with rows that are added to values, with features and keys beyond their rows, with tables that queries and keys meet.
#include <cstring>
#include <memory>
#include <mutex>

#include "cuda/attention/hopper_reference.hpp"
#include "cuda/on_device.cuh"

namespace phasor::test {
namespace {

template <class T>
std::vector<std::byte> bytes_of_list(const std::vector<T>& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

struct Outcome {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;  // (B, H, Tq)
};

/// A problem's tensors on the device.
class OnHopper {
 public:
  explicit OnHopper(const HopperProblem& p)
      : problem_(p),
        device_({bytes_of_list(p.q.memory), bytes_of_list(p.k.memory), bytes_of_list(p.v.memory), bytes_of_list(p.out.memory),
                 std::vector<std::byte>(rows() * sizeof(float) + 4, std::byte{0xff}), bytes_of_list(p.diagonal),
                 bytes_of_list(p.table.memory), bytes_of_list(p.table_shift), bytes_of_list(p.content_shift),
                 bytes_of_list(p.features.memory), bytes_of_list(p.value_table.memory), bytes_of_list(p.sides[0].table.memory),
                 bytes_of_list(p.sides[1].table.memory), bytes_of_list(p.sides[0].thresholds), bytes_of_list(p.sides[1].thresholds)}) {
    forward.q = view(p.q, 0), forward.k = view(p.k, 1), forward.v = view(p.v, 2), forward.out = view(p.out, 3);
    forward.lse = reinterpret_cast<float*>(device_.memory[4]);
    forward.lse_strides = {p.q.shape[1] * p.q.shape[2], 1, p.q.shape[1]};
    forward.scale = p.scale, forward.softcap = p.softcap, forward.causal = p.causal, forward.left = p.left, forward.right = p.right;
    if (!p.diagonal.empty()) forward.diagonal = reinterpret_cast<const float*>(device_.memory[5]);
    forward.diagonal_stride = p.diagonal_stride, forward.first_distance = p.first_distance, forward.distances = p.distances;
    forward.far_left = p.far_left, forward.far_right = p.far_right;
    forward.skip = p.skip;
    if (!p.table.memory.empty()) forward.table = view(p.table, 6);
    forward.table_left = p.table_left, forward.table_right = p.table_right, forward.table_scale = p.table_scale;
    forward.zero_outside = p.zero_outside;
    if (!p.value_table.memory.empty()) forward.value_table = view(p.value_table, 10);
    if (!p.features.memory.empty()) forward.features = view(p.features, 9);
    forward.table_shift = shift(p.table_shift, 7), forward.content_shift = shift(p.content_shift, 8);
    forward.of_queries = side(p.sides[0], 11), forward.of_keys = side(p.sides[1], 12);
    // At an odd address, full of what somebody left there.
    workspace_bytes_ = static_cast<std::size_t>(cuda::hopper::workspace_bytes(forward));
    const std::vector<std::byte> left(workspace_bytes_ + 1 + 64, std::byte{0xee});
    workspace_ = std::make_unique<OnDevice>(std::vector<std::vector<std::byte>>{left});
  }
  void run(cudaStream_t stream) {
    const Status s = cuda::hopper::run("gpu_hopper", forward, workspace_->memory[0] + 1, stream);
    expect(s.ok(), problem_.text() + ": " + s.message());
  }
  Outcome read() const {
    Outcome result = {problem_.out.memory, std::vector<float>(rows())};
    const auto out = device_.read(3, result.out.size() * 2), lse = device_.read(4, rows() * sizeof(float));
    std::memcpy(result.out.data(), out.data(), out.size());
    std::memcpy(result.lse.data(), lse.data(), lse.size());
    const auto workspace = workspace_->read(0, workspace_bytes_ + 1 + 64);
    expect(std::all_of(workspace.end() - 64, workspace.end(), [](std::byte x) { return x == std::byte{0xee}; }),
           problem_.text() + ": writes behind the workspace");
    return result;
  }
  void write_q(const std::vector<std::uint16_t>& list) {
    must(cudaMemcpy(device_.memory[0], list.data(), list.size() * 2, cudaMemcpyHostToDevice), "q");
  }
  HopperForward forward;

 private:
  std::size_t rows() const { return static_cast<std::size_t>(problem_.q.shape[0] * problem_.q.shape[1] * problem_.q.shape[2]); }
  TensorView view(const Tensor16& x, int buffer) const {
    return {device_.memory[buffer] + 2 * x.begin, problem_.dtype, x.shape, x.strides, kGpu};
  }
  ConstTensorView shift(const std::vector<float>& list, int buffer) const {
    if (list.empty()) return {};
    const std::int64_t d = problem_.q.shape[3], heads = static_cast<std::int64_t>(list.size()) / d;
    return {device_.memory[buffer], DType::f32, {1, 1, heads, d}, {heads * d, heads * d, d, 1}, kGpu};
  }
  cuda::hopper::ByDistance side(const SideProblem& of, int buffer) const {
    if (!of.is_there()) return {};
    cuda::hopper::ByDistance side = {view(of.table, buffer), of.map, of.scale, of.far_left, of.far_right};
    side.map.buckets.thresholds = reinterpret_cast<const std::int64_t*>(device_.memory[buffer + 2]);
    return side;
  }
  const HopperProblem& problem_;
  OnDevice device_;
  std::unique_ptr<OnDevice> workspace_;
  std::size_t workspace_bytes_ = 0;
};

Outcome run_on_gpu(const HopperProblem& p) {
  OnHopper on(p);
  expect(cuda::hopper::takes(on.forward, 9), p.text() + ": is not taken");
  on.run(nullptr);
  must(cudaDeviceSynchronize(), p.text().c_str());
  return on.read();
}

/// The largest share of a bound that was used.
double compare(HopperProblem p, const Outcome& is) {
  p.widen();
  const auto& shape = p.out.shape;
  std::vector<char> written(is.out.size(), 0);
  std::mutex mutex;
  double worst = 0;
  each_row(shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    const ExpectedRow want = expected_row(p, b, i, h);
    const double lse = is.lse[(b * shape[2] + h) * shape[1] + i];
    const bool nothing = want.lse == -INFINITY;
    double share = nothing ? (lse == -INFINITY ? 0 : 9) : std::abs(lse - want.lse) / want.lse_bound;
    if (!(share <= 1)) share = 9;  // NaN, too
    for (std::int64_t c = 0; c < shape[3]; ++c) {
      const double out = value_of(p.dtype, is.out[p.out.at(b, i, h, c)]);
      const double off = nothing ? (out == 0 ? 0 : 9) : std::abs(out - want.out[c]) / want.out_bound[c];
      share = off <= 1 ? std::max(share, off) : 9;
      written[p.out.at(b, i, h, c)] = 1;
    }
    const std::lock_guard lock(mutex);
    if (share > 1) {
      expect(false, p.text() + ": row " + std::to_string(b) + " " + std::to_string(i) + " " + std::to_string(h) + ", lse " +
                        std::to_string(lse) + " wanted " + std::to_string(want.lse) + ", out " +
                        std::to_string(value_of(p.dtype, is.out[p.out.at(b, i, h, 0)])) + " wanted " + std::to_string(want.out[0]));
    }
    worst = std::max(worst, share);
  });
  for (std::size_t x = 0; x < is.out.size(); ++x) {
    if (written[x] == 0 && is.out[x] != p.out.memory[x]) return expect(false, p.text() + ": writes outside of its tensor"), 9;
  }
  return worst;
}

/// Rows of zeros that are added to values change nothing; without a table of keys heads of more than 64 channels have other tiles then.
void no_values(const HopperProblem& p) {
  if (p.table.memory.empty() && (p.q.shape[3] > 64 || p.v.shape[3] > 64)) return;
  HopperProblem zero = p, none = p;
  std::fill(zero.value_table.memory.begin(), zero.value_table.memory.end(), std::uint16_t{0});
  none.value_table = {};
  const Outcome is = run_on_gpu(zero), want = run_on_gpu(none);
  expect(is.out == want.out && std::memcmp(is.lse.data(), want.lse.data(), is.lse.size() * 4) == 0,
         p.text() + ": zeros are added to values");
}
/// Bits that must be the same: with a bias of zeros, in a batch of one, and with other queries beside it.
void same_bits(const HopperProblem& p, const Outcome& is, std::uint64_t seed) {
  HopperProblem other = p;
  if (!p.value_table.memory.empty()) no_values(p);
  const bool sided = p.sides[0].is_there() || p.sides[1].is_there();
  const bool plain = p.diagonal.empty() && p.softcap == 0 && p.table.memory.empty() && p.value_table.memory.empty() && !sided;
  if (plain && p.q.shape[3] <= 64 && p.v.shape[3] <= 64) {  // wider heads have other tiles beside a table
    other.table = {std::vector<std::uint16_t>(static_cast<std::size_t>(5 * p.q.shape[3]), 0), {1, 5, 1, p.q.shape[3]}, {}, 0};
    other.table.strides = contiguous_strides(other.table.shape);
    other.table_left = 4, other.table_scale = p.scale;
    const Outcome zero = run_on_gpu(other);
    expect(zero.out == is.out && std::memcmp(zero.lse.data(), is.lse.data(), is.lse.size() * 4) == 0,
           p.text() + ": a table of zeros is not plain");
    other = p;
  }
  if (plain && p.q.shape[3] <= 128 && p.v.shape[3] <= 128) {
    for (SideProblem& side : other.sides) {
      side.table = {std::vector<std::uint16_t>(static_cast<std::size_t>(76 * p.q.shape[3]), 0), {1, 76, 1, p.q.shape[3]}, {}, 0};
      side.table.strides = contiguous_strides(side.table.shape);
      side.map.left = side.far_left = 5, side.map.right = side.far_right = 70, side.scale = p.scale;
    }
    const Outcome zero = run_on_gpu(other);
    expect(zero.out == is.out && std::memcmp(zero.lse.data(), is.lse.data(), is.lse.size() * 4) == 0,
           p.text() + ": sides of zeros are not plain");
    other = p;
  }
  if (plain) {
    other.diagonal.assign(static_cast<std::size_t>(p.q.shape[1] + p.k.shape[1]), 0.0f);
    other.first_distance = -p.q.shape[1], other.distances = p.q.shape[1] + p.k.shape[1];
    const Outcome zero = run_on_gpu(other);
    expect(zero.out == is.out && std::memcmp(zero.lse.data(), is.lse.data(), is.lse.size() * 4) == 0, p.text() + ": zeros are not plain");
    other = p;
  }
  if (p.skip) return;  // what is left out depends on all keys, and on the other queries of a block
  const std::int64_t b = static_cast<std::int64_t>(seed) % p.q.shape[0], i = static_cast<std::int64_t>(seed) % p.q.shape[1];
  for (Tensor16* const x : {&other.q, &other.k, &other.v, &other.out}) x->shape[0] = 1, x->begin += b * x->strides[0];
  if (!p.features.memory.empty()) other.features.shape[0] = 1, other.features.begin += b * other.features.strides[0];
  RandomHopper random(seed);
  std::vector<std::uint16_t> q = random.numbers(p.dtype, other.q.memory.size());
  for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
    for (std::int64_t c = 0; c < p.q.shape[3]; ++c) q[other.q.at(0, i, h, c)] = p.q.memory[other.q.at(0, i, h, c)];
  }
  other.q.memory = q;
  const Outcome alone = run_on_gpu(other);
  bool same = true;
  for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
    same = same && std::bit_cast<std::uint32_t>(alone.lse[h * p.q.shape[1] + i]) ==
                       std::bit_cast<std::uint32_t>(is.lse[(b * p.q.shape[2] + h) * p.q.shape[1] + i]);
    for (std::int64_t c = 0; c < p.out.shape[3]; ++c) same = same && alone.out[p.out.at(b, i, h, c)] == is.out[p.out.at(b, i, h, c)];
  }
  expect(same, p.text() + ": a row depends on others");
}

enum class Kind : std::uint8_t { long_table, any, values, features, sides };
HopperProblem problem_of(Kind kind, std::uint64_t seed) {
  RandomHopper random(seed);
  switch (kind) {
    case Kind::long_table:
      return random.make_long();
    case Kind::values:
      return random.make_valued();
    case Kind::features:
      return random.make_featured();
    case Kind::sides:
      return random.make_sides();
    case Kind::any:
      break;
  }
  return random.make();
}

/// Values that no query meets with a weight that counts: not a number, and the last queries do not notice; without skipping they do.
void leaves_out_tiles() {
  HopperProblem p = RandomHopper(5).steep(4);
  HopperProblem sound = p;
  sound.widen();
  const std::int64_t last = p.q.shape[1] - 1;
  for (std::int64_t b = 0; b < p.v.shape[0]; ++b) {
    for (std::int64_t h = 0; h < p.v.shape[2]; ++h) p.v.memory[p.v.at(b, 3, h, 0)] = 0x7fff;
  }
  for (const bool skip : {true, false}) {
    p.skip = skip;
    const Outcome is = run_on_gpu(p);
    const double out = value_of(p.dtype, is.out[p.out.at(0, last, 0, 0)]);
    const ExpectedRow want = expected_row(sound, 0, last, 0);
    expect(skip ? std::abs(out - want.out[0]) <= want.out_bound[0] : std::isnan(out), p.text() + ": tiles that do not count");
  }
}

/// A graph that is replayed after q changed gives what the changed q gives.
void captured() {
  RandomHopper random(77);
  HopperProblem p = random.make();
  while (p.diagonal.empty()) p = random.make();
  OnHopper on(p);
  Captured graph;
  on.run(graph.stream);
  graph.end();
  p.q.memory = random.numbers(p.dtype, p.q.memory.size());
  on.write_q(p.q.memory);
  for (int twice = 0; twice < 2; ++twice) graph.replay();
  compare(p, on.read());
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 1000);
  Kind only = Kind::any;
  if (argc > 3 && std::strcmp(argv[3], "long") == 0) only = Kind::long_table;
  if (argc > 3 && std::strcmp(argv[3], "values") == 0) only = Kind::values;
  if (argc > 3 && std::strcmp(argv[3], "sides") == 0) only = Kind::sides;
  if (argc > 3 && std::strcmp(argv[3], "features") == 0) only = Kind::features;
  cudaDeviceProp device{};
  must(cudaGetDeviceProperties(&device, 0), "the device");
  if (device.major != 9) {
    std::printf("gpu_hopper: NOT RUN: this device has compute capability %d, not 9\n", device.major);
    return 0;
  }
  double worst = 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && failures < 20; ++seed) {
    for (const Kind kind : {Kind::any, Kind::long_table, Kind::values, Kind::features, Kind::sides}) {
      if (only == Kind::any ? kind != Kind::any && seed % 5 != static_cast<unsigned>(kind) : kind != only) continue;
      const HopperProblem problem = problem_of(kind, seed);
      const Outcome is = run_on_gpu(problem);
      worst = std::max(worst, compare(problem, is));
      same_bits(problem, is, seed);
    }
  }
  if (seeds.has_first()) {
    leaves_out_tiles();
    captured();
  }
  std::printf("%6llu problems, at most %.2f of a bound\n", static_cast<unsigned long long>(seeds.calls), worst);
  std::printf("gpu_hopper: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
