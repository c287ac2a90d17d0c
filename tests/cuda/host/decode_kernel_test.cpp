// SPDX-License-Identifier: Apache-2.0
// The kernel of decoding, its blocks run by the host with emulated instructions, against a naive reference in double.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda/attention/decode_memory.hpp"
#include "cuda/host/emulated/decode_on_host.hpp"

namespace phasor::test {
namespace {

using namespace cuda::decode;

class HostMemory {
 public:
  std::byte* take(std::size_t bytes) {
    all_.emplace_back(bytes + 80);
    auto* const begin = all_.back().data();
    return begin + (64 - reinterpret_cast<std::uintptr_t>(begin) % 64) % 64;
  }
  template <class T>
  T* copy(const std::vector<T>& list) {
    auto* const to = reinterpret_cast<T*>(take(list.size() * sizeof(T)));
    if (!list.empty()) std::memcpy(to, list.data(), list.size() * sizeof(T));
    return to;
  }

 private:
  std::vector<std::vector<std::byte>> all_;
};

/// Those that are small: instructions that are emulated take long.
bool is_small(const DecodeProblem& p) {
  const DecodeWork& w = p.work;
  return w.batch * w.key_heads * w.splits * ((rows_of(w) + 63) / 64) <= 6 && rows_of(w) * w.key_heads <= 48;
}

TEST(DecodeKernel, is_within_the_bounds_of_its_arithmetic) {
  int found = 0;
  double worst = 0;
  for (std::uint64_t seed = 1; found < 24; ++seed) {
    if (!is_small(random_decode(seed))) continue;
    ++found;
    const DecodeMemory<HostMemory> on(seed);
    const DecodeWork& w = on.p.work;
    run_on_host(w);
    for (std::int64_t b = 0; b < w.batch; ++b) {
      for (std::int64_t i = 0; i < w.queries; ++i) {
        for (std::int64_t h = 0; h < w.heads; ++h) {
          std::string text;
          const double share = share_of_bound(on, b, i, h, text);
          ASSERT_LE(share, 1) << text;
          worst = std::max(worst, share);
        }
      }
    }
  }
  RecordProperty("share_of_bound", std::to_string(worst));
}

}  // namespace
}  // namespace phasor::test
