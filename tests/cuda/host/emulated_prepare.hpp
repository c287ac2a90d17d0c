// SPDX-License-Identifier: Apache-2.0
// Blocks of prepare_attention's kernels whose threads are contexts of their own (emulated/block.hpp): what one writes before another that
// it did not wait for reads it, is found, and so is a copy that nobody waited for.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "cuda/host/emulated/block.hpp"
#include "cuda/host/latent.hpp"
#include "cuda/host/plain.hpp"

namespace phasor::test {

/// Which of a block's threads go first.
inline bool emulated_backwards = false;

/// What threads of a block know together.
struct EmulatedShared {
  std::array<unsigned, 3> votes = {};  // of questions; a slot is cleared long before it is used again
  int again = 0;                       // threads that came to make a row again
};

/// A copy arrives when its thread waits for it.
struct EmulatedCopies {
  static void fetch(cuda::Words* to, const std::byte* from) {
    emulated::Block::running()->copies().push_back({reinterpret_cast<unsigned char*>(to), reinterpret_cast<const unsigned char*>(from)});
  }
  static void arrive() {
    auto& copies = emulated::Block::running()->copies();
    for (const auto& copy : copies) std::memcpy(copy.to, copy.from, sizeof(cuda::Words));
    copies.clear();
  }
};
/// Numbers of each lane for those of the lane `apart` away, by xor.
template <class Number, int count>
void exchange_in_warp(Number* numbers, int apart) {
  struct Own {
    Number* numbers;
    int apart;
  } own = {numbers, apart};
  constexpr int kLanes = emulated::Block::kLanes;
  emulated::Block::running()->with_warp(
      own, +[](const std::array<Own*, kLanes>& lanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          const int other = lane ^ lanes[0]->apart;
          if (other < lane) continue;
          Number* const a = lanes[static_cast<std::size_t>(lane)]->numbers;
          std::swap_ranges(a, a + count, lanes[static_cast<std::size_t>(other)]->numbers);
        }
      });
}

/// The bits of all lanes.
inline void any_in_warp(unsigned& bits) {
  emulated::Block::running()->with_warp(
      bits, +[](const std::array<unsigned*, emulated::Block::kLanes>& lanes) {
        unsigned all = 0;
        for (const unsigned* const one : lanes) all |= *one;
        for (unsigned* const one : lanes) *one = all;
      });
}

/// One thread's view of a block with all that squads, plain calls and values by channels want; one barrier where kernels have one.
struct EmulatedBlock : EmulatedCopies {
  int count;
  EmulatedShared* all;
  unsigned asked = 0;

  EmulatedBlock(int threads, EmulatedShared& of_block) : count(threads), all(&of_block) {}
  template <class State>
  struct PerThread {
    State state;
    State& of(int /*thread*/) { return state; }
  };
  static int own() { return static_cast<int>(emulated::Block::running()->thread()); }
  int threads() const { return count; }
  static void wait() { emulated::Block::running()->wait_for_block(); }
  static void depend() {}
  template <class Body>
  void each(const Body& body) {
    body(own());
  }
  template <class Body>
  unsigned either(const Body& body) {
    const unsigned bits = body(own());
    unsigned& here = all->votes[asked % 3];
    here |= bits;
    all->votes[++asked % 3] = 0;
    wait();
    return here;
  }
  template <int numbers_each, int squad, class Held, class Numbers, class Op>
  void fold(Held& held, const Numbers& numbers, const Op& op) {
    float* const mine = numbers(held.state);
    for (int apart = squad / 2; apart > 0; apart /= 2) {
      float others[numbers_each];
      std::copy_n(mine, numbers_each, others);
      exchange_in_warp<float, numbers_each>(others, apart);
      for (int i = 0; i < numbers_each; ++i) mine[i] = op(mine[i], others[i]);
    }
  }
  template <int apart, int numbers_each, class Held, class Numbers>
  void swap(Held& held, const Numbers& numbers) {
    exchange_in_warp<std::remove_pointer_t<decltype(numbers(held.state))>, numbers_each>(numbers(held.state), apart);
  }
  template <class Has, class Body>
  void in_warps_of(const Has& has, const Body& body) {
    unsigned bits = has(own()) ? 1 : 0;
    any_in_warp(bits);
    if (bits != 0) body();
  }
  void again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& place, cuda::SquadShared& shared) {
    if (is_first_again()) std::memset(static_cast<void*>(shared.values), 0x7f, sizeof(shared.values));
    cuda::make_row_again(work, place, shared.values, *this);
  }
  void plain_again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& first, int rows_count, cuda::PlainShared* rows) {
    if (is_first_again()) {
      for (int row = 0; row < rows_count; ++row) {
        std::fill(std::begin(rows[row].cos), std::end(rows[row].cos), NAN);
        std::fill(std::begin(rows[row].sin), std::end(rows[row].sin), NAN);
      }
    }
    cuda::make_plain_rows_again(work, first, rows_count, rows, *this);
  }

 private:
  /// Who spoils the row: most of what was there is right.
  bool is_first_again() const {
    const bool first = all->again++ % count == 0;
    squad_rows_again += first ? 1 : 0;
    return first;
  }
};

struct EmulatedLatentWarp : EmulatedCopies {
  static int lane() { return emulated::Block::running()->lane(); }
  static int threads() { return cuda::kLatentLanes; }
  static void wait() {
    int nothing = 0;
    emulated::Block::running()->with_warp(nothing, +[](const std::array<int*, cuda::kLatentLanes>& /*lanes*/) {});
  }
  void again(const cuda::SquadWorkAt& work, const cuda::SquadPlace& place, cuda::CosSin<float>* values) {
    if (lane() == 0) ++squad_rows_again;
    cuda::make_row_again(work, place, values, *this);
  }
  static void depend() {}
  template <class State>
  struct PerThread {
    State state;
    State& of(int /*lane*/) { return state; }
  };
  template <int apart, int count, class Held, class Numbers>
  void swap(Held& held, const Numbers& numbers) {
    exchange_in_warp<std::remove_pointer_t<decltype(numbers(held.state))>, count>(numbers(held.state), apart);
  }
  template <class Body>
  void each(const Body& body) {
    body(lane());
  }
  template <class Body>
  unsigned either(const Body& body) {
    unsigned bits = body(lane());
    any_in_warp(bits);
    return bits;
  }
  template <class Body>
  float sum(const Body& body) {
    float sum = body(lane());
    emulated::Block::running()->with_warp(
        sum, +[](const std::array<float*, cuda::kLatentLanes>& lanes) {
          float sums[math::kNormPartials];
          for (std::size_t n = 0; n < lanes.size(); ++n) sums[n] = *lanes[n];
          math::fold_partials(sums);
          for (float* const one : lanes) *one = sums[0];
        });
    return sum;
  }
};

/// A Machine (squads.hpp) of contexts.
struct Emulated {
  template <class Body>
  static void run(int threads, const Body& body) {
    static emulated::Block block;
    block.run(threads, body, emulated_backwards);
  }
  template <class Body>
  static void squads(int threads, const Body& body) {
    EmulatedShared all;
    run(threads, [&] {
      EmulatedBlock block(threads, all);
      body(block);
    });
  }
  template <class Body>
  static void plain(int threads, const Body& body) {
    squads(threads, body);
  }
  template <class Body>
  static void columns(int threads, const Body& body) {
    squads(threads, body);
  }
  template <class Body>
  static void latent(int warps, const Body& body) {
    run(warps * cuda::kLatentLanes, [&] {
      EmulatedLatentWarp warp;
      body(warp, EmulatedBlock::own() / cuda::kLatentLanes);
    });
  }
};

}  // namespace phasor::test
