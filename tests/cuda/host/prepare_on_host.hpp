// SPDX-License-Identifier: Apache-2.0
// prepare_attention as src/cuda/prepare/run.cu does it, its kernels run by the host.
#pragma once

#include <cmath>
#include <vector>

#include "cuda/host/latent.hpp"
#include "cuda/host/plain.hpp"
#include "cuda/host/warps.hpp"
#include "cuda/prepare/prepare.hpp"
#include "phasor/execution.hpp"

namespace phasor::test {

/// Blocks whose threads go through one step after the other together, the last ones first: nobody waits.
struct StepByStep {
  template <class Body>
  static void squads(int threads, const Body& body) {
    HostSquadBlock block{threads};
    body(block);
  }
  template <class Body>
  static void plain(int threads, const Body& body) {
    HostPlainBlock block{{threads}};
    body(block);
  }
  template <class Body>
  static void columns(int threads, const Body& body) {
    HostColumnBlock block{{threads}};
    body(block);
  }
  template <class Body>
  static void latent(int warps, const Body& body) {
    for (int index = warps - 1; index >= 0; --index) {
      HostLatentWarp warp;
      body(warp, index);
    }
  }
};

/// Calls by the kernel of any.
inline unsigned general_calls = 0;

/// How calls are cut and where they go, whatever the number of their tokens.
struct HostPrepare {
  bool by_plain_kernels = true;
  bool as_few = true;
  std::int64_t walkers = 0;  // blocks that walk, of plain calls of many tokens; 0: none, one, two and three in turn

  template <class Machine>
  void run_common(const job::PrepareJob& job) const {
    if (cuda::has_columns(job)) {
      job::PrepareJob others = job;
      if (--others.operand_count > 0) run_common<Machine>(others);
      return columns_on_host<Machine>(job);
    }
    const cuda::SquadWork work = cuda::squad_work(job);
    if (by_plain_kernels && cuda::is_plain(work)) return plain_on_host<Machine>(work, as_few, walkers);
    squads_on_host<Machine>(job);
  }
  /// False: the kernel of any call is to do it.
  template <class Machine>
  bool run(const job::PrepareJob& job) const {
    if (cuda::is_for_squads(job)) return run_common<Machine>(job), true;
    if (cuda::is_latent(job) && by_plain_kernels && cuda::is_plain_latent(job)) return plain_latent_on_host<Machine>(job), true;
    if (cuda::is_latent(job)) return latent_on_host<Machine>(job), true;
    return false;
  }
};

inline void prepare_any_on_host(const job::PrepareJob& job) {
  using Threads = HostBlockOfWarps<job::OneByOne>;
  ++general_calls;
  const cuda::PrepareWork work = cuda::work_of(job);
  const cuda::PrepareLaunch shape = cuda::launch_shape(work);
  std::vector<float> memory(shape.shared_bytes / sizeof(float), NAN);
  Threads block{shape.threads};
  const cuda::PreparingBlock<Threads> preparing = {{&work, nullptr, {&work.job.specs, work.job.specs.rows, nullptr}}, memory.data(), block};
  for (std::int64_t row = 0; row < job.turn.batch * job.turn.tokens; ++row) preparing.make(row);
}

}  // namespace phasor::test
