// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: random problems against a naive reference in double, and what must be the same bits.
// `gpu_hopper_backward [PROBLEMS [table | sides]]` exits non-zero where something differs; table: with tables of clipped rows alone, sides:
// with tables by distance alone.
#include <cstring>
#include <memory>

#include "cuda/attention/hopper_gradients.hpp"
#include "cuda/on_device.cuh"

namespace phasor::test {
namespace {

template <class T>
std::vector<std::byte> bytes_of_list(const std::vector<T>& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  if (!list.empty()) std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

/// Memory of the gradients, with what lies between their rows.
struct Gradients {
  std::vector<std::uint16_t> q, k, v;
  std::vector<float> distances, table, sides[2];

  bool operator==(const Gradients& o) const {
    return q == o.q && k == o.k && v == o.v && bytes_of_list(distances) == bytes_of_list(o.distances) &&
           bytes_of_list(table) == bytes_of_list(o.table) && bytes_of_list(sides[0]) == bytes_of_list(o.sides[0]) &&
           bytes_of_list(sides[1]) == bytes_of_list(o.sides[1]);
  }
};
constexpr std::uint16_t kUnwritten = 0x7fed;  // NaN of both dtypes

/// A problem's tensors on the device.
class OnHopper {
 public:
  OnHopper(const BackwardProblem& p, bool deterministic) : problem_(p), device_(buffers(p)) {
    const HopperProblem& f = p.forward;
    cuda::hopper::Forward& to = backward.forward;
    to.q = view(f.q, 0), to.k = view(f.k, 1), to.v = view(f.v, 2);
    to.scale = f.scale, to.causal = f.causal, to.left = f.left, to.right = f.right;
    if (!f.diagonal.empty()) to.diagonal = reinterpret_cast<const float*>(device_.memory[5]);
    to.diagonal_stride = f.diagonal_stride, to.first_distance = f.first_distance, to.distances = f.distances;
    to.far_left = f.far_left, to.far_right = f.far_right;
    backward.out = view(f.out, 3), backward.out_gradient = view(p.gradient, 4);
    backward.lse = reinterpret_cast<const float*>(device_.memory[6]);
    backward.lse_strides = backward.lse_gradient_strides = {f.q.shape[1] * f.q.shape[2], 1, f.q.shape[1]};
    if (!p.lse_gradient.empty()) backward.lse_gradient = reinterpret_cast<const float*>(device_.memory[7]);
    backward.q = view(f.q, 8), backward.k = view(f.k, 9), backward.v = view(f.v, 10);
    if (p.wants_distances) backward.diagonal = reinterpret_cast<float*>(device_.memory[11]);
    if (!f.table.memory.empty()) to.table = view(f.table, 12);
    to.table_left = f.table_left, to.table_right = f.table_right, to.table_scale = f.table_scale;
    if (p.wants_table) backward.table = reinterpret_cast<float*>(device_.memory[13]);
    for (int side = 0; side < 2; ++side) {
      const GradientSide& of = p.sides[side];
      if (of.rows.memory.empty()) continue;
      cuda::hopper::DistanceTable& table = backward.tables[side];
      table = {view(of.rows, 14 + 3 * side), of.map, of.scale, of.left, of.right};
      table.map.buckets.thresholds = reinterpret_cast<const std::int64_t*>(device_.memory[static_cast<std::size_t>(15 + 3 * side)]);
      if (of.wants) table.gradient = reinterpret_cast<float*>(device_.memory[static_cast<std::size_t>(16 + 3 * side)]);
    }
    backward.deterministic = deterministic;
    expect(cuda::hopper::takes(backward, 9), p.text() + ": is not taken");
    // At an odd address, full of what somebody left there.
    workspace_bytes_ = static_cast<std::size_t>(cuda::hopper::workspace_bytes(backward));
    workspace_ =
        std::make_unique<OnDevice>(std::vector<std::vector<std::byte>>{std::vector<std::byte>(workspace_bytes_ + 1 + 64, std::byte{0xee})});
  }
  void run(cudaStream_t stream) {
    const Status s = cuda::hopper::run("gpu_hopper_backward", backward, workspace_->memory[0] + 1, stream);
    expect(s.ok(), problem_.text() + ": " + s.message());
  }
  Gradients read() const {
    const HopperProblem& f = problem_.forward;
    Gradients to = {f.q.memory, f.k.memory, f.v.memory, std::vector<float>(distances(problem_)), std::vector<float>(lines(problem_))};
    copy(8, to.q), copy(9, to.k), copy(10, to.v), copy(11, to.distances), copy(13, to.table);
    for (std::size_t side = 0; side < 2; ++side) to.sides[side].resize(lines(problem_.sides[side])), copy(16 + 3 * side, to.sides[side]);
    const auto workspace = workspace_->read(0, workspace_bytes_ + 1 + 64);
    expect(std::all_of(workspace.end() - 64, workspace.end(), [](std::byte x) { return x == std::byte{0xee}; }),
           problem_.text() + ": writes behind the workspace");
    return to;
  }
  void write_q(const std::vector<std::uint16_t>& list) {
    must(cudaMemcpy(device_.memory[0], list.data(), list.size() * 2, cudaMemcpyHostToDevice), "q");
  }
  cuda::hopper::Backward backward;

 private:
  static std::size_t distances(const BackwardProblem& p) {
    return p.wants_distances ? static_cast<std::size_t>(p.forward.q.shape[2] * p.forward.distances) : 0;
  }
  static std::size_t lines(const BackwardProblem& p) {
    const Extents& s = p.forward.table.shape;
    return p.wants_table ? static_cast<std::size_t>(s[1] * s[2] * s[3]) : 0;
  }
  static std::size_t lines(const GradientSide& p) {
    const Extents& s = p.rows.shape;
    return p.wants ? static_cast<std::size_t>(s[1] * s[2] * s[3]) : 0;
  }
  static std::vector<std::byte> thresholds(const GradientSide& p) {
    const plan::RowRule& rule = p.map.buckets;
    return bytes_of_list(std::vector<std::int64_t>(rule.thresholds, rule.thresholds + rule.threshold_count));
  }
  static std::vector<std::vector<std::byte>> buffers(const BackwardProblem& p) {
    const HopperProblem& f = p.forward;
    const auto unwritten = [](const Tensor16& x) { return bytes_of_list(std::vector<std::uint16_t>(x.memory.size(), kUnwritten)); };
    return {bytes_of_list(f.q.memory),
            bytes_of_list(f.k.memory),
            bytes_of_list(f.v.memory),
            bytes_of_list(f.out.memory),
            bytes_of_list(p.gradient.memory),
            bytes_of_list(f.diagonal),
            bytes_of_list(p.lse),
            bytes_of_list(p.lse_gradient),
            unwritten(f.q),
            unwritten(f.k),
            unwritten(f.v),
            std::vector<std::byte>(distances(p) * sizeof(float), std::byte{0xff}),
            bytes_of_list(f.table.memory),
            std::vector<std::byte>(lines(p) * sizeof(float), std::byte{0xff}),
            bytes_of_list(p.sides[0].rows.memory),
            thresholds(p.sides[0]),
            std::vector<std::byte>(lines(p.sides[0]) * sizeof(float), std::byte{0xff}),
            bytes_of_list(p.sides[1].rows.memory),
            thresholds(p.sides[1]),
            std::vector<std::byte>(lines(p.sides[1]) * sizeof(float), std::byte{0xff})};
  }
  template <class T>
  void copy(std::size_t buffer, std::vector<T>& to) const {
    const auto bytes = device_.read(buffer, to.size() * sizeof(T));
    if (!to.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  TensorView view(const Tensor16& x, int buffer) const {
    return {device_.memory[static_cast<std::size_t>(buffer)] + 2 * x.begin, problem_.forward.dtype, x.shape, x.strides, kGpu};
  }
  const BackwardProblem& problem_;
  OnDevice device_;
  std::unique_ptr<OnDevice> workspace_;
  std::size_t workspace_bytes_ = 0;
};

Gradients run_on_gpu(const BackwardProblem& p, bool deterministic = true) {
  OnHopper on(p, deterministic);
  on.run(nullptr);
  must(cudaDeviceSynchronize(), p.text().c_str());
  return on.read();
}

double share_of(double is, const Bounded& want) {
  const double share = std::abs(is - want.value) / want.bound;
  return share <= 1 ? share : 9;  // NaN, too
}

/// One tensor; what lies between its rows is as it was.
double compare(const BackwardProblem& p, const char* name, const Tensor16& of, const std::vector<std::uint16_t>& is,
               const std::vector<Bounded>& want) {
  std::vector<char> written(is.size(), 0);
  std::size_t n = 0;
  double worst = 0;
  for (std::int64_t b = 0; b < of.shape[0]; ++b) {
    for (std::int64_t t = 0; t < of.shape[1]; ++t) {
      for (std::int64_t h = 0; h < of.shape[2]; ++h) {
        for (std::int64_t c = 0; c < of.shape[3]; ++c, ++n) {
          const auto at = static_cast<std::size_t>(of.at(b, t, h, c));
          const double x = value_of(p.forward.dtype, is[at]), share = share_of(x, want[n]);
          written[at] = 1;
          if (share > 1) {
            expect(false, p.text() + ": d" + name + " " + std::to_string(b) + " " + std::to_string(t) + " " + std::to_string(h) + " " +
                              std::to_string(c) + " is " + std::to_string(x) + " wanted " + std::to_string(want[n].value) + " +- " +
                              std::to_string(want[n].bound));
            return 9;
          }
          worst = std::max(worst, share);
        }
      }
    }
  }
  for (std::size_t x = 0; x < is.size(); ++x) {
    if (written[x] == 0 && is[x] != kUnwritten) return expect(false, p.text() + ": writes outside of d" + name), 9;
  }
  return worst;
}
double compare_rows(const BackwardProblem& p, const char* name, const std::vector<float>& is, const std::vector<Bounded>& want) {
  double worst = 0;
  for (std::size_t n = 0; n < is.size(); ++n) {
    const double share = is[n] == 0 && want[n].value == 0 ? 0 : share_of(is[n], want[n]);
    if (share > 1) {
      expect(false, p.text() + ": " + name + " " + std::to_string(n) + " is " + std::to_string(is[n]) + " wanted " +
                        std::to_string(want[n].value) + " +- " + std::to_string(want[n].bound));
      return 9;
    }
    worst = std::max(worst, share);
  }
  return worst;
}
double compare(const BackwardProblem& p, const Gradients& is, const ReferenceGradients& want) {
  double worst = compare(p, "q", p.forward.q, is.q, want.q);
  worst = std::max(worst, compare(p, "k", p.forward.k, is.k, want.k));
  worst = std::max(worst, compare(p, "v", p.forward.v, is.v, want.v));
  worst = std::max(worst, compare_rows(p, "table", is.table, want.table));
  worst = std::max(worst, compare_rows(p, "table of queries", is.sides[0], want.sides[0]));
  worst = std::max(worst, compare_rows(p, "table of keys", is.sides[1], want.sides[1]));
  std::vector<double> distances(is.distances.size());
  for (std::size_t n = 0; n < distances.size(); ++n) {
    const auto distance = static_cast<std::int64_t>(n) % p.forward.distances;
    distances[n - static_cast<std::size_t>(distance - clipped_distance(p.forward, distance + p.forward.first_distance))] += is.distances[n];
  }
  for (std::size_t n = 0; n < distances.size(); ++n) {
    const double share = distances[n] == 0 && want.distances[n].value == 0 ? 0 : share_of(distances[n], want.distances[n]);
    if (share > 1) {
      expect(false, p.text() + ": distance " + std::to_string(n) + " is " + std::to_string(distances[n]) + " wanted " +
                        std::to_string(want.distances[n].value) + " +- " + std::to_string(want.distances[n].bound));
      return 9;
    }
    worst = std::max(worst, share);
  }
  return worst;
}

/// The same bits twice, and for a batch row by itself.
void same_bits(const BackwardProblem& p, const Gradients& is, std::uint64_t seed) {
  expect(run_on_gpu(p) == is, p.text() + ": other bits the second time");
  BackwardProblem alone = p;
  const std::int64_t b = static_cast<std::int64_t>(seed) % p.forward.q.shape[0];
  for (Tensor16* const x : {&alone.forward.q, &alone.forward.k, &alone.forward.v, &alone.forward.out, &alone.gradient}) {
    x->shape[0] = 1, x->begin += b * x->strides[0];
  }
  const std::int64_t rows = p.forward.q.shape[1] * p.forward.q.shape[2];
  alone.lse.assign(p.lse.begin() + b * rows, p.lse.begin() + (b + 1) * rows);
  if (!p.lse_gradient.empty()) alone.lse_gradient.assign(p.lse_gradient.begin() + b * rows, p.lse_gradient.begin() + (b + 1) * rows);
  const Gradients one = run_on_gpu(alone);
  const auto same = [](const std::vector<std::uint16_t>& x, const std::vector<std::uint16_t>& all) {
    for (std::size_t n = 0; n < x.size(); ++n) {
      if (x[n] != kUnwritten && x[n] != all[n]) return false;
    }
    return true;
  };
  expect(same(one.q, is.q) && same(one.k, is.k) && same(one.v, is.v), p.text() + ": a batch row depends on others");
}

/// A graph that is replayed after q changed gives what the changed q gives.
void captured(Added added) {
  const auto wants = [&](const BackwardProblem& p) {
    if (added == Added::sides) return p.sides[0].wants && p.sides[1].wants;
    return added == Added::table ? p.wants_table : p.wants_distances;
  };
  BackwardProblem p = backward_problem(77, added);
  for (std::uint64_t seed = 78; !wants(p); ++seed) p = backward_problem(seed, added);
  OnHopper on(p, true);
  on.write_q(RandomHopper(5).numbers(p.forward.dtype, p.forward.q.memory.size()));  // whose outputs and log-sum-exp are others
  Captured graph;
  on.run(graph.stream);
  graph.end();
  graph.replay();
  on.write_q(p.forward.q.memory);
  for (int twice = 0; twice < 2; ++twice) graph.replay();
  compare(p, on.read(), reference_gradients(p));
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const std::uint64_t problems = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500;
  const char* const only = argc > 2 ? argv[2] : "";
  cudaDeviceProp device{};
  must(cudaGetDeviceProperties(&device, 0), "the device");
  if (device.major != 9) {
    std::printf("gpu_hopper_backward: NOT RUN: this device has compute capability %d, not 9\n", device.major);
    return 0;
  }
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= problems && failures < 20; ++seed) {
    for (const Added added : {Added::any, Added::table, Added::sides}) {
      const char* const name = added == Added::any ? "any" : added == Added::table ? "table" : "sides";
      if (*only != 0 ? std::strcmp(only, name) != 0 : added != Added::any && seed % 4 != 0) continue;
      const BackwardProblem problem = backward_problem(seed, added);
      const Gradients is = run_on_gpu(problem);
      const ReferenceGradients want = reference_gradients(problem);
      worst = std::max(worst, compare(problem, is, want));
      compare(problem, run_on_gpu(problem, false), want);
      same_bits(problem, is, seed);
    }
  }
  for (const Added added : {Added::any, Added::table, Added::sides}) captured(added);
  std::printf("%6llu problems, at most %.2f of a bound\n", static_cast<unsigned long long>(problems), worst);
  std::printf("gpu_hopper_backward: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
