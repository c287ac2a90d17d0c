// SPDX-License-Identifier: Apache-2.0
// Outputs over disjoint keys made one: a block has a row.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention {

/// Parts are a kernel's parameter, since merge_attention has no workspace: few by a small one, which costs less to launch, many by one that
/// nearly fills the 32764 bytes that CUDA has for it. All parts have one shape and one dtype; those that lie alike share their strides.
constexpr int kFewParts = 96;
constexpr int kMostParts = 1408;
constexpr int kMostPartStrides = 96;

struct PartStrides {
  int64_t out[4];
  int64_t lse[3];
};
template <int kParts>
struct MergeWork {
  const void* outs[kParts] = {};
  const void* lses[kParts] = {};
  std::uint8_t strides_of[kParts] = {};
  PartStrides strides[kMostPartStrides] = {};
  int64_t count = 0;
  DType out_dtype = DType::f32;
  DType lse_dtype = DType::f32;
  AttentionOutputs outputs = {};
};
static_assert(sizeof(MergeWork<kMostParts>) <= 32764);

/// False: the parts are too many, or lie in too many ways.
template <int kParts>
bool take_parts(const job::MergeJob& job, MergeWork<kParts>& work) {
  if (job.part_count > kParts) return false;
  int ways = 0;
  for (int64_t p = 0; p < job.part_count; ++p) {
    const ConstTensorView& out = job.parts[p].out;
    const Extents& lse = job.parts[p].lse.strides;
    const PartStrides strides = {{out.strides[0], out.strides[1], out.strides[2], out.strides[3]}, {lse[0], lse[1], lse[2]}};
    const auto same = [&](const PartStrides& s) {
      return std::equal(s.out, s.out + 4, strides.out) && std::equal(s.lse, s.lse + 3, strides.lse);
    };
    const auto way = static_cast<int>(std::find_if(work.strides, work.strides + ways, same) - work.strides);
    if (way == kMostPartStrides) return false;
    if (way == ways) work.strides[ways++] = strides;
    work.outs[p] = out.data;
    work.lses[p] = job.parts[p].lse.data;
    work.strides_of[p] = static_cast<std::uint8_t>(way);
  }
  work.count = job.part_count;
  work.out_dtype = job.parts[0].out.dtype;
  work.lse_dtype = job.parts[0].lse.dtype;
  work.outputs = job.outputs;
  return true;
}
/// body(work) with as small a parameter as will do; false: there is none.
template <class Body>
bool with_merge(const job::MergeJob& job, const Body& body) {
  const auto by = [&](auto work) {
    const bool taken = take_parts(job, *work);
    if (taken) body(*work);
    return taken;
  };
  return by(std::make_unique<MergeWork<kFewParts>>()) || by(std::make_unique<MergeWork<kMostParts>>());
}

inline Status refused_merge(const char* where, const job::MergeJob& job) {
  return Status::unsupported(std::string(where) + ": " + std::to_string(job.part_count) +
                             " parts are more than the parameter of a CUDA kernel holds, wanted at most " + std::to_string(kMostParts) +
                             " in at most " + std::to_string(kMostPartStrides) + " different strides");
}

template <class Work>
PHASOR_HD inline int64_t merge_rows(const Work& work) {
  const Extents& s = work.outputs.out.shape;
  return s[0] * s[1] * s[2];
}

/// Row n of tensors of the result's shape.
template <class Work>
PHASOR_HD inline int64_t row_of(const Work& work, const int64_t* strides, int64_t n) {
  const Extents& s = work.outputs.out.shape;
  const int64_t token = n / s[2];
  return token / s[1] * strides[0] + token % s[1] * strides[1] + n % s[2] * strides[2];
}
template <class Work>
PHASOR_HD inline double lse_of(const Work& work, int64_t part, int64_t n) {
  return job::load_element(work.lses[part], work.lse_dtype, row_of(work, work.strides[work.strides_of[part]].lse, n));
}

/// The logarithm of the sum of all; -infinity where no part saw a key.
template <class Work>
PHASOR_HD inline double merged_lse(const Work& work, int64_t n) {
  double top = -infinity<double>();
  for (int64_t p = 0; p < work.count; ++p) {
    const double lse = lse_of(work, p, n);
    top = lse > top ? lse : top;
  }
  if (top == -infinity<double>()) top = 0;  // or all are NaN, which is never greater
  double sum = 0;
  for (int64_t p = 0; p < work.count; ++p) sum += plan::weight_of_part(lse_of(work, p, n), top);
  return top + plan::logarithm(sum);
}

/// Every element of the parts is read before it is written, so that outputs may be one of them.
template <class Work, class Block>
PHASOR_HD inline void merge_block(const Work& work, int64_t n, double& lse, Block& block) {
  const TensorView& out = work.outputs.out;
  block.each([&](int thread, int) {
    if (thread == 0) lse = merged_lse(work, n);
  });
  block.each([&](int thread, int threads) {
    for (int64_t c = thread; c < out.shape[3]; c += threads) {
      double sum = 0;
      for (int64_t p = 0; p < work.count; ++p) {
        const double of_part = lse_of(work, p, n);
        if (of_part == -infinity<double>()) continue;  // it saw nothing: what it holds counts for nothing, NaN too
        const int64_t* const strides = work.strides[work.strides_of[p]].out;
        const double x = job::load_element(work.outs[p], work.out_dtype, row_of(work, strides, n) + c * strides[3]);
        sum += plan::weight_of_part(of_part, lse) * x;
      }
      job::store_element(out.data, out.dtype, row_of(work, out.strides.data(), n) + c * out.strides[3], sum);
    }
  });
  block.each([&](int thread, int) {
    const TensorView& to = work.outputs.lse;
    if (thread == 0 && to.data != nullptr) job::store_element(to.data, to.dtype, row_of(work, to.strides.data(), n), lse);
  });
}

}  // namespace phasor::cuda::attention
