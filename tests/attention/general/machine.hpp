// SPDX-License-Identifier: Apache-2.0
// The general kernels of attention run by the host, block after block, in the place of the CPU's: what they compute is held against the
// double reference where there is no GPU.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/replaced.hpp"
#include "cpu/run.hpp"
#include "cuda/attention/backward/layout.hpp"
#include "cuda/attention/kernels/merge.hpp"
#include "cuda/host/block.hpp"

namespace phasor::test {

/// In which order the machine runs blocks and items: nothing may depend on it.
inline bool first_blocks_first = false;
template <class Body>
void each_block(std::int64_t count, const Body& body) {
  for (std::int64_t n = 0; n < count; ++n) body(first_blocks_first ? n : count - 1 - n);
}

struct AttentionMachine {
  Status put(const std::vector<std::byte>& bytes, std::byte* to) const {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return {};
  }
  template <class Body>
  static void with_type(const cuda::attention::Layout& layout, const Body& body) {
    if (layout.arithmetic == DType::f64) {
      body(double{});
    } else {
      body(float{});
    }
  }
  Status items(const cuda::attention::Layout& layout, const cuda::attention::ItemWork& item) const {
    with_type(layout, [&](auto type) {
      each_block(item.count, [&](std::int64_t n) {
        if (cuda::attention::is_of_sums(item.kind)) return cuda::attention::do_sum<decltype(type)>(layout.work, item, n);
        cuda::attention::do_item<decltype(type)>(layout.work, item, n);
      });
    });
    return {};
  }
  Status weights(const cuda::attention::Layout& layout, const cuda::attention::WeightsWork& work) const {
    with_type(layout, [&](auto type) {
      const auto room = std::make_unique<cuda::attention::Room<decltype(type)>>();
      HostBlock block{cuda::attention::kThreads};
      for (std::int64_t n = cuda::attention::weights_blocks(work) - 1; n >= 0; --n) cuda::attention::weights_block(work, n, *room, block);
    });
    return {};
  }
  static int compute_major() { return 0; }
  Status rotate(job::RotateJob& job) const { return cpu::run_rotate(job, {}); }
  Status forward(const cuda::attention::Layout& layout) const {
    with_type(layout, [&](auto type) {
      using T = decltype(type);
      const auto room = std::make_unique<cuda::attention::Room<T>>();
      HostBlock block{cuda::attention::kThreads};
      for (std::int64_t n = cuda::attention::forward_blocks<T>(layout.work) - 1; n >= 0; --n) {
        cuda::attention::forward_block(layout.work, n, *room, block);
      }
    });
    return {};
  }
  Status backward(const cuda::attention::BackwardLayout& layout) const {
    with_type(layout, [&](auto type) {
      using T = decltype(type);
      const auto room = std::make_unique<cuda::attention::Room<T>>();
      HostBlock block{cuda::attention::kThreads};
      each_block(cuda::attention::backward_blocks(layout.work),
                 [&](std::int64_t n) { cuda::attention::backward_block(layout.work, n, *room, block); });
    });
    return {};
  }
  Status parameters(const cuda::attention::ParameterGradient& gradient) const {
    std::vector<double> memory(static_cast<std::size_t>(gradient.memory) / sizeof(double) + 1);
    HostBlock block{cuda::attention::kThreads};
    each_block(cuda::attention::parameter_blocks(gradient),
               [&](std::int64_t n) { cuda::attention::parameter_block(gradient, n, memory.data(), block); });
    return {};
  }
};

inline Status general_merge(job::MergeJob& job, const Execution& /*execution*/) {
  const bool fits = cuda::attention::with_merge(job, [](const auto& work) {
    double lse = 0;
    HostBlock block{cuda::attention::kThreads};
    for (std::int64_t n = cuda::attention::merge_rows(work) - 1; n >= 0; --n) cuda::attention::merge_block(work, n, lse, block);
  });
  return fits ? Status() : cuda::attention::refused_merge("merge_attention", job);
}

/// Attention is done by a machine, forward and on the way back.
template <class Machine>
void forward_by(backend::Backend& backend) {
  backend.attention_workspace = cuda::attention::forward_workspace;
  backend.attention = [](job::AttentionJob& job, const Workspace& workspace, const Execution&) {
    Machine machine;
    return cuda::attention::attention_on(machine, job, workspace);
  };
}
template <class Machine>
void backward_by(backend::Backend& backend) {
  backend.attention_backward_workspace = cuda::attention::backward_workspace;
  backend.attention_backward = [](job::AttentionBackwardJob& job, const Workspace& workspace, const Execution&) {
    Machine machine;
    return cuda::attention::attention_backward_on(machine, job, workspace);
  };
}

/// While it lives, attention is that of the general kernels.
inline ReplacedBackend general_attention() {
  return ReplacedBackend([](backend::Backend& backend) {
    forward_by<AttentionMachine>(backend);
    backend.attention_weights_workspace = cuda::attention::weights_workspace;
    backend.attention_weights = [](job::AttentionWeightsJob& job, const Workspace& workspace, const Execution&) {
      AttentionMachine machine;
      return cuda::attention::weights_on(machine, job, workspace);
    };
    backend.merge = general_merge;
    backward_by<AttentionMachine>(backend);
  });
}

}  // namespace phasor::test
