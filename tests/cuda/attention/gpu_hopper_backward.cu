// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: random problems against a naive reference in double, and what must be the same bits.
// `gpu_hopper_backward [PROBLEMS [any | table | sides | xl | parts]]` exits non-zero where something differs. Of one kind alone: table:
// with tables of clipped rows, sides: by distance, xl: and with what is added to queries (Transformer-XL), parts: calls in parts.
#include <cstring>
#include <memory>

#include "cuda/attention/hopper/backward/parts.hpp"
#include "cuda/attention/hopper_drawn.hpp"
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
  std::vector<float> distances, table, sides[2], shifts[2];

  bool operator==(const Gradients& o) const {
    return q == o.q && k == o.k && v == o.v && bytes_of_list(distances) == bytes_of_list(o.distances) &&
           bytes_of_list(table) == bytes_of_list(o.table) && bytes_of_list(sides[0]) == bytes_of_list(o.sides[0]) &&
           bytes_of_list(sides[1]) == bytes_of_list(o.sides[1]) && bytes_of_list(shifts[0]) == bytes_of_list(o.shifts[0]) &&
           bytes_of_list(shifts[1]) == bytes_of_list(o.shifts[1]);
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
    for (int n = 0; n < 2; ++n) {
      const GradientShift& of = p.shifts[n];
      if (of.vector.empty()) continue;
      const Extents shape = {1, 1, static_cast<std::int64_t>(of.vector.size()) / f.q.shape[3], f.q.shape[3]};
      const auto buffer = static_cast<std::size_t>(20 + 2 * n);
      backward.shifts[n].vector = {device_.memory[buffer], DType::f32, shape, contiguous_strides(shape), kGpu};
      if (of.wants) backward.shifts[n].gradient = reinterpret_cast<float*>(device_.memory[buffer + 1]);
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
    for (std::size_t n = 0; n < 2; ++n) to.shifts[n].resize(numbers(problem_.shifts[n])), copy(21 + 2 * n, to.shifts[n]);
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
  static std::size_t numbers(const GradientShift& p) { return p.wants ? p.vector.size() : 0; }
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
            std::vector<std::byte>(lines(p.sides[1]) * sizeof(float), std::byte{0xff}),
            bytes_of_list(p.shifts[0].vector),
            std::vector<std::byte>(numbers(p.shifts[0]) * sizeof(float), std::byte{0xff}),
            bytes_of_list(p.shifts[1].vector),
            std::vector<std::byte>(numbers(p.shifts[1]) * sizeof(float), std::byte{0xff})};
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
  worst = std::max(worst, compare_rows(p, "u", is.shifts[0], want.shifts[0]));
  worst = std::max(worst, compare_rows(p, "v", is.shifts[1], want.shifts[1]));
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
    if (added == Added::xl) return p.sides[0].wants && p.shifts[0].wants && p.shifts[1].wants;
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

// ---- Parts ----

/// A call that is too large for one part, of few different numbers, and for a reference: its outputs are made up. A table of queries with a
/// row for each distance, u of each head, v of all.
class LargeCall {
 public:
  explicit LargeCall(const Extents& q, std::int64_t key_heads) : of_q_(q), of_k_{q[0], q[1], key_heads, q[3]}, device_(buffers()) {
    backward.forward.q = view(0, of_q_), backward.forward.k = view(1, of_k_), backward.forward.v = view(2, of_k_);
    backward.out = view(3, of_q_), backward.out_gradient = view(4, of_q_);
    backward.q = view(5, of_q_), backward.k = view(6, of_k_), backward.v = view(7, of_k_);
    backward.lse = reinterpret_cast<const float*>(device_.memory[8]);
    backward.lse_strides = {q[1] * q[2], 1, q[1]};
    backward.forward.scale = 1 / std::sqrt(static_cast<double>(q[3]));
    const std::int64_t end = q[1] - 1;
    backward.tables[0] = {view(9, of_rows()), {.left = end, .right = end}, backward.forward.scale, end, end, floats(10)};
    backward.shifts[0] = {numbers(11, {1, 1, q[2], q[3]}), floats(12)};
    backward.shifts[1] = {numbers(13, {1, 1, 1, q[3]}), floats(14)};
    expect(cuda::hopper::takes(backward, 9), "a call in parts: is not taken");
    const auto bytes = static_cast<std::size_t>(cuda::hopper::workspace_bytes(backward));
    must(cudaMalloc(&workspace_, bytes), "a workspace");
  }
  LargeCall(const LargeCall&) = delete;
  LargeCall& operator=(const LargeCall&) = delete;
  ~LargeCall() { cudaFree(workspace_); }
  void run(const cuda::hopper::Backward& b) {
    const Status s = cuda::hopper::run("gpu_hopper_backward", b, workspace_, nullptr);
    expect(s.ok(), "a call in parts: " + s.message());
  }
  /// dq, dk, dv; then gradients of the table, of u and of v.
  std::vector<std::vector<std::byte>> read() const {
    std::vector<std::vector<std::byte>> list;
    for (const std::size_t n : {5, 6, 7, 10, 12, 14}) list.push_back(device_.read(n, bytes_[n]));
    return list;
  }
  cuda::hopper::Backward backward;

 private:
  static std::size_t count(const Extents& s) { return static_cast<std::size_t>(s[0] * s[1] * s[2] * s[3]); }
  Extents of_rows() const { return {1, 2 * of_q_[1] - 1, of_q_[2], of_q_[3]}; }
  std::vector<std::vector<std::byte>> buffers() {
    RandomHopper random(3);
    const auto base = random.numbers(DType::bf16, 99991);
    std::vector<std::vector<std::byte>> list;
    const auto add = [&](const Extents& shape) {
      std::vector<std::uint16_t> numbers(count(shape));
      for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] = base[(n * 31 + list.size() * 1009) % base.size()];
      list.push_back(bytes_of_list(numbers));
    };
    const auto add_floats = [&](std::size_t numbers, float x) { list.push_back(bytes_of_list(std::vector<float>(numbers, x))); };
    const std::size_t heads = static_cast<std::size_t>(of_q_[2] * of_q_[3]), width = static_cast<std::size_t>(of_q_[3]);
    for (const Extents* const shape : {&of_q_, &of_k_, &of_k_, &of_q_, &of_q_, &of_q_, &of_k_, &of_k_}) add(*shape);
    add_floats(count(of_q_) / width, 12);
    add(of_rows()), add_floats(count(of_rows()), NAN);
    add_floats(heads, 0.25f), add_floats(heads, NAN);
    add_floats(width, -0.5f), add_floats(width, NAN);
    for (const auto& x : list) bytes_.push_back(x.size());
    return list;
  }
  TensorView view(std::size_t n, const Extents& shape) const {
    return {device_.memory[n], DType::bf16, shape, contiguous_strides(shape), kGpu};
  }
  ConstTensorView numbers(std::size_t n, const Extents& shape) const {
    return {device_.memory[n], DType::f32, shape, contiguous_strides(shape), kGpu};
  }
  float* floats(std::size_t n) const { return reinterpret_cast<float*>(device_.memory[n]); }
  Extents of_q_, of_k_;
  std::vector<std::size_t> bytes_;
  OnDevice device_;
  void* workspace_ = nullptr;
};

/// Other parts give the same bits to queries, keys and values; what is summed over batch rows is summed in another order.
void same_in_parts(const Extents& q, std::int64_t key_heads) {
  LargeCall call(q, key_heads);
  expect(cuda::hopper::parts_for(call.backward).count(call.backward) > 1, "a call in parts: it is in one");
  call.run(call.backward);
  must(cudaDeviceSynchronize(), "a call in parts");
  const auto is = call.read();
  const cuda::hopper::Parts small = {1, 1};
  for (std::int64_t n = 0; n < small.count(call.backward); ++n) call.run(part_of(call.backward, small, n));
  must(cudaDeviceSynchronize(), "a call in small parts");
  const auto want = call.read();
  for (std::size_t x = 0; x < 3; ++x) expect(is[x] == want[x], "a call in parts: other bits of gradient " + std::to_string(x));
  for (std::size_t x = 3; x < is.size(); ++x) {
    std::vector<float> a(is[x].size() / 4), b(a.size());
    std::memcpy(a.data(), is[x].data(), is[x].size()), std::memcpy(b.data(), want[x].data(), want[x].size());
    double largest = 0, difference = 0;
    for (std::size_t n = 0; n < a.size(); ++n) {
      const double by = std::abs(static_cast<double>(a[n]) - static_cast<double>(b[n]));
      largest = std::max(largest, static_cast<double>(std::abs(b[n]))), difference = std::max(difference, std::isnan(by) ? 1e300 : by);
    }
    expect(largest > 0 && difference <= 1e-5 * largest, "a call in parts: gradient " + std::to_string(x) + " differs by " +
                                                            std::to_string(difference) + " of " + std::to_string(largest));
  }
}
/// By batch rows, and by key heads.
void same_in_parts() {
  same_in_parts({5, 4096, 16, 64}, 8);
  same_in_parts({2, 8192, 20, 128}, 5);
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
  constexpr Added kAll[] = {Added::any, Added::table, Added::sides, Added::xl};
  constexpr const char* kNames[] = {"any", "table", "sides", "xl"};
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= problems && failures < 20; ++seed) {
    for (const Added added : kAll) {
      const char* const name = kNames[static_cast<int>(added)];
      if (*only != 0 ? std::strcmp(only, name) != 0 : added != Added::any && seed % 4 != 0) continue;
      const BackwardProblem problem = backward_problem(seed, added);
      const Gradients is = run_on_gpu(problem);
      const ReferenceGradients want = reference_gradients(problem);
      worst = std::max(worst, compare(problem, is, want));
      compare(problem, run_on_gpu(problem, false), want);
      same_bits(problem, is, seed);
    }
  }
  for (const Added added : kAll) captured(added);
  if (*only == 0 || std::strcmp(only, "parts") == 0) same_in_parts();
  std::printf("%6llu problems, at most %.2f of a bound\n", static_cast<unsigned long long>(problems), worst);
  std::printf("gpu_hopper_backward: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
