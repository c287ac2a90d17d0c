// SPDX-License-Identifier: Apache-2.0
// The rotation of one row (a token of a batch row) by a block of threads: it makes the row's cosines and sines, then turns every head of
// every operand by them. Written for any executor of a block (device: exec.cuh; tests run the same body on the host).
#pragma once

#include <cstdint>

#include "cuda/divided.hpp"
#include "cuda/rotary/element.hpp"
#include "cuda/rotary/quick_value.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/rotary/specs.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

/// A job with what its launch has decided.
struct RotateWork {
  job::RotateJob job;
  int64_t segment_pairs = 0;  // pairs of a segment
  int64_t held_pairs = 0;     // pairs of a row that a block holds at a time; divides into vectors
  bool by_head = false;       // every head has a row of its own
  bool differ = false;        // and so has every lane of a pair
  bool whole_heads = false;   // in place from one pairing to the other: a head is read whole before it is written
};

/// Work where it lies, in a kernel's parameter or on the host.
struct WorkAt {
  const RotateWork* work;
  Rows rows;

  PHASOR_HD const RotateWork* operator->() const { return work; }
};

/// The same for one row, whose spec may be one of several.
PHASOR_HD inline WorkAt work_of_row(const WorkAt& work, const SpecsAt& specs, int64_t row) {
  const int64_t tokens = work->job.tokens;
  return {work.work, rows_at(specs, work.rows, row / tokens, row % tokens)};
}

/// The row that a block holds: cosines and sines of lane 0, then those of lane 1 where they differ.
template <class T>
struct HeldRow {
  T* values;
  int64_t pairs;  // of the block's memory

  PHASOR_HD T& cos(int lane, int64_t i) const { return values[2 * lane * pairs + i]; }
  PHASOR_HD T& sin(int lane, int64_t i) const { return values[(2 * lane + 1) * pairs + i]; }
};

/// Pairs [first, first + count) of a segment of one row; `head` counts where heads have rows of their own.
struct RowPart {
  RowPlace place;
  int64_t first;
  int64_t count;
};

/// Block::any_row<T> is pair_row<T> out of line: all that is rare or long.
template <class Block, class T>
PHASOR_HD inline void fill_part(const WorkAt& work, const RowPart& part, const HeldRow<T>& held, int thread, int threads) {
  for (int64_t i = thread; i < part.count; i += threads) {
    const int64_t pair = part.place.segment + part.first + i;
    if constexpr (sizeof(T) == sizeof(float)) {
      CosSin<float> value{};
      if (!work->differ && quick_value(work.rows, part.place, pair, value)) {
        held.cos(0, i) = value.cos;
        held.sin(0, i) = value.sin;
        continue;
      }
    }
    const PairRow<T> row = Block::template any_row<T>(work.rows, part.place, pair);
    held.cos(0, i) = row.lane[0].cos;
    held.sin(0, i) = row.lane[0].sin;
    if (!work->differ) continue;
    held.cos(1, i) = row.lane[1].cos;
    held.sin(1, i) = row.lane[1].sin;
  }
}

/// What happens to each product: nothing, or (numerics hf in 16 bits) it is rounded to the dtype.
template <DType dtype>
struct Product {
  bool rounds;
  template <class V>
  PHASOR_HD V operator()(V product) const {
    if constexpr (Element<dtype>::kHalf) return rounds ? rounded_to(dtype, product) : product;
    return product;
  }
};

/// `width` neighbouring pairs of one head, as they lie: lane 0 and lane 1 of each.
template <DType dtype, int width>
struct Pairs {
  typename Element<dtype>::Storage x[width];
  typename Element<dtype>::Storage y[width];
};

/// Where some pairs of a head lie: its first rotated channel of the segment, read and written.
struct HeadAt {
  const std::byte* in;
  std::byte* out;
};
PHASOR_HD inline HeadAt head_at(const job::RotateJob& job, const job::Operand& operand, const RowPlace& place, int64_t head) {
  int64_t batch = place.batch;
  int64_t token = place.token;
  if (job.slots != nullptr) {
    batch = job.slots[place.token] / job.page_size;
    token = job.slots[place.token] % job.page_size;
  }
  const int64_t skip = (job.offset + 2 * place.segment) * bytes_of(job.dtype);
  return {operand.in + batch * operand.in_strides[0] + token * operand.in_strides[1] + head * operand.in_strides[2] + skip,
          operand.out + batch * operand.out_strides[0] + token * operand.out_strides[1] + head * operand.out_strides[2] + skip};
}

template <DType dtype, Pairing pairing, int width>
PHASOR_HD inline Pairs<dtype, width> load_pairs(const std::byte* head, int64_t pair, int64_t half) {
  using Storage = typename Element<dtype>::Storage;
  using Lanes = Vector<Storage, width>;
  const auto* const channels = reinterpret_cast<const Storage*>(head);
  Pairs<dtype, width> pairs;
  if constexpr (pairing == Pairing::half) {
    const Lanes x = *reinterpret_cast<const Lanes*>(channels + pair);
    const Lanes y = *reinterpret_cast<const Lanes*>(channels + half + pair);
    unrolled<width>([&](auto i) {
      pairs.x[i] = x.at[i];
      pairs.y[i] = y.at[i];
    });
  } else {
    const Lanes first = *reinterpret_cast<const Lanes*>(channels + 2 * pair);
    const Lanes second = *reinterpret_cast<const Lanes*>(channels + 2 * pair + width);
    unrolled<width>([&](auto i) {
      constexpr int kX = 2 * i;
      constexpr int kY = 2 * i + 1;
      pairs.x[i] = kX < width ? first.at[kX % width] : second.at[kX % width];
      pairs.y[i] = kY < width ? first.at[kY % width] : second.at[kY % width];
    });
  }
  return pairs;
}

template <DType dtype, Pairing pairing, int width>
PHASOR_HD inline void store_pairs(std::byte* head, int64_t pair, int64_t half, const Pairs<dtype, width>& pairs) {
  using Storage = typename Element<dtype>::Storage;
  using Lanes = Vector<Storage, width>;
  auto* const channels = reinterpret_cast<Storage*>(head);
  if constexpr (pairing == Pairing::half) {
    Lanes x;
    Lanes y;
    unrolled<width>([&](auto i) {
      x.at[i] = pairs.x[i];
      y.at[i] = pairs.y[i];
    });
    *reinterpret_cast<Lanes*>(channels + pair) = x;
    *reinterpret_cast<Lanes*>(channels + half + pair) = y;
  } else {
    Lanes first;
    Lanes second;
    unrolled<width>([&](auto i) {
      constexpr int kX = 2 * i;
      constexpr int kY = 2 * i + 1;
      (kX < width ? first : second).at[kX % width] = pairs.x[i];
      (kY < width ? first : second).at[kY % width] = pairs.y[i];
    });
    *reinterpret_cast<Lanes*>(channels + 2 * pair) = first;
    *reinterpret_cast<Lanes*>(channels + 2 * pair + width) = second;
  }
}

/// Pairs from `at` of the held row on. One whose cosine is exactly 1 and sine exactly 0 is left bit for bit.
template <DType dtype, int width, class T>
PHASOR_HD inline void turn_pairs(const WorkAt& work, const HeldRow<T>& held, int64_t at, Pairs<dtype, width>& pairs) {
  using E = Element<dtype>;
  const int second = work->differ ? 1 : 0;
  const Product<dtype> of = {work->job.rounds_products};
  unrolled<width>([&](auto i) {
    const math::Pair<T> cos = {held.cos(0, at + i), held.cos(second, at + i)};
    const math::Pair<T> sin = {held.sin(0, at + i), held.sin(second, at + i)};
    if (!work->job.turns_all && math::is_identity(cos.x, sin.x) && math::is_identity(cos.y, sin.y)) return;
    const math::Pair<T> turned = math::rotate<T>({E::widen(pairs.x[i]), E::widen(pairs.y[i])}, cos, sin, of);
    pairs.x[i] = E::narrow(turned.x);
    pairs.y[i] = E::narrow(turned.y);
  });
}

/// Which vector of which head of which operand a thread turns; heads of q come before those of k.
struct Item {
  int operand;
  int64_t head;
  int64_t pair;  // of the part, the first of the vector
};
template <int width>
PHASOR_HD inline int64_t items_of(const WorkAt& work, const RowPart& part) {
  const int64_t heads = work->by_head ? work->job.operand_count : work->job.operands[0].heads + work->job.operands[1].heads;
  return heads * (part.count / width);
}
template <int width>
PHASOR_HD inline Item item_at(const WorkAt& work, const RowPart& part, int64_t index) {
  const int64_t per_head = part.count / width;  // up to job::kMaxWidthInPlaceAcrossPairings
  const int64_t head = divided(index, per_head);
  const int64_t pair = (index - head * per_head) * width;
  if (work->by_head) return {static_cast<int>(head), part.place.head, pair};
  const int64_t first = work->job.operands[0].heads;
  return head < first ? Item{0, head, pair} : Item{1, head - first, pair};
}
PHASOR_HD inline bool has_head(const WorkAt& work, const Item& item) {
  return !work->by_head || item.head < work->job.operands[item.operand].heads;
}

/// The turning of one part of a row, by steps between which the block waits.
template <DType dtype, Pairing read, Pairing write, int width, class Block>
struct PartTurner {
  using T = typename Element<dtype>::Value;
  using Some = Pairs<dtype, width>;
  /// What a thread holds while the sines are made.
  struct Ahead {
    Some pairs[kAhead];
  };

  WorkAt work;
  RowPart part;
  HeldRow<T> held;

  PHASOR_HD int64_t half() const { return work->segment_pairs; }
  PHASOR_HD Some load(const Item& item) const {
    const HeadAt head = head_at(work->job, work->job.operands[item.operand], part.place, item.head);
    return load_pairs<dtype, read, width>(head.in, part.first + item.pair, half());
  }
  PHASOR_HD void turn_and_store(const Item& item, Some& pairs) const {
    turn_pairs<dtype, width>(work, held, item.pair, pairs);
    const HeadAt head = head_at(work->job, work->job.operands[item.operand], part.place, item.head);
    store_pairs<dtype, write, width>(head.out, part.first + item.pair, half(), pairs);
  }

  /// Asks for the thread's first vectors, then makes its part of the row.
  PHASOR_HD void begin(int thread, int threads, Ahead& ahead) const {
    const int64_t items = items_of<width>(work, part);
    unrolled<kAhead>([&](auto n) {
      const int64_t index = thread + n * threads;
      if (index >= items) return;
      const Item item = item_at<width>(work, part, index);
      if (has_head(work, item)) ahead.pairs[n] = load(item);
    });
    fill_part<Block>(work, part, held, thread, threads);
  }
  PHASOR_HD void finish(int thread, int threads, Ahead& ahead) const {
    const int64_t items = items_of<width>(work, part);
    unrolled<kAhead>([&](auto n) {
      const int64_t index = thread + n * threads;
      if (index >= items) return;
      const Item item = item_at<width>(work, part, index);
      if (has_head(work, item)) turn_and_store(item, ahead.pairs[n]);
    });
    for (int64_t index = thread + kAhead * threads; index < items; index += threads) {
      const Item item = item_at<width>(work, part, index);
      if (!has_head(work, item)) continue;
      Some pairs = load(item);
      turn_and_store(item, pairs);
    }
  }
};

/// Channels that are not rotated, out of place: [0, offset) and [offset + R, head_dim).
template <DType dtype>
PHASOR_HD inline void copy_rest(const WorkAt& work, const RowPlace& place, int thread, int threads) {
  using Storage = typename Element<dtype>::Storage;
  const job::RotateJob& job = work->job;
  const int64_t rest = job.head_dim - 2 * job.pairs;
  for (int o = 0; o < job.operand_count; ++o) {
    const job::Operand& operand = job.operands[o];
    if (operand.in == operand.out) continue;
    for (int64_t n = thread; n < operand.heads * rest; n += threads) {
      const HeadAt head = head_at(job, operand, {place.batch, place.token, 0, 0}, n / rest);
      const int64_t at = n % rest < job.offset ? n % rest : n % rest + 2 * job.pairs;
      reinterpret_cast<Storage*>(head.out)[at - job.offset] = reinterpret_cast<const Storage*>(head.in)[at - job.offset];
    }
  }
}

/// In place from one pairing to the other every channel moves: a head is held by the block's threads before any of it is written.
template <DType dtype, Pairing read, Pairing write>
struct HeadTurner {
  using T = typename Element<dtype>::Value;
  static constexpr int kMost = static_cast<int>(job::kMaxWidthInPlaceAcrossPairings / 2 / kThreads);
  struct Held {
    Pairs<dtype, 1> pairs[kMost];
  };
  WorkAt work;
  RowPart part;
  HeldRow<T> row;

  PHASOR_HD void read_head(const HeadAt& head, int thread, int threads, Held& held) const {
    unrolled<kMost>([&](auto n) {
      if (thread + n * threads >= part.count) return;
      held.pairs[n] = load_pairs<dtype, read, 1>(head.in, thread + n * threads, work->segment_pairs);
    });
  }
  PHASOR_HD void write_head(const HeadAt& head, int thread, int threads, Held& held) const {
    unrolled<kMost>([&](auto n) {
      if (thread + n * threads >= part.count) return;
      turn_pairs<dtype, 1>(work, row, thread + n * threads, held.pairs[n]);
      store_pairs<dtype, write, 1>(head.out, thread + n * threads, work->segment_pairs, held.pairs[n]);
    });
  }
};

/// One row. Block: `each(body)` runs body(thread, threads) for every thread and waits for all; PerThread<S> is a thread's own S.
template <DType dtype, Pairing read, Pairing write, int width, class Block>
PHASOR_HD inline void rotate_part(const WorkAt& work, const RowPart& part, typename Element<dtype>::Value* memory, Block& block) {
  using Turner = PartTurner<dtype, read, write, width, Block>;
  const Turner turner = {work, part, {memory, work->held_pairs}};
  typename Block::template PerThread<typename Turner::Ahead> ahead;
  block.each([&](int thread, int threads) { turner.begin(thread, threads, ahead.of(thread)); });
  block.each([&](int thread, int threads) { turner.finish(thread, threads, ahead.of(thread)); });
}

template <DType dtype, Pairing read, Pairing write, class Block>
PHASOR_HD inline void rotate_whole_heads(const WorkAt& work, const RowPart& part, typename Element<dtype>::Value* memory, Block& block) {
  using Turner = HeadTurner<dtype, read, write>;
  const Turner turner = {work, part, {memory, work->held_pairs}};
  typename Block::template PerThread<typename Turner::Held> held;
  block.each([&](int thread, int threads) { fill_part<Block>(work, part, turner.row, thread, threads); });
  for (int o = 0; o < work->job.operand_count; ++o) {
    const int64_t first = work->by_head ? part.place.head : 0;
    const int64_t end = work->by_head ? first + 1 : work->job.operands[o].heads;
    for (int64_t h = first; h < end && h < work->job.operands[o].heads; ++h) {
      const HeadAt head = head_at(work->job, work->job.operands[o], part.place, h);
      block.each([&](int thread, int threads) { turner.read_head(head, thread, threads, held.of(thread)); });
      block.each([&](int thread, int threads) { turner.write_head(head, thread, threads, held.of(thread)); });
    }
  }
}

template <DType dtype, Pairing read, Pairing write, int width, class Block>
PHASOR_HD inline void rotate_row(const WorkAt& work, int64_t row, typename Element<dtype>::Value* memory, Block& block) {
  const job::RotateJob& job = work->job;
  RowPlace place = {row / job.tokens, row % job.tokens, 0, 0};
  if (work.rows.source == nullptr || (job.slots != nullptr && job.slots[place.token] < 0)) return;
  const int64_t most = job.operands[0].heads > job.operands[1].heads ? job.operands[0].heads : job.operands[1].heads;
  const int64_t rows = work->by_head ? most : 1;
  for (place.segment = 0; place.segment < job.pairs; place.segment += work->segment_pairs) {
    for (place.head = 0; place.head < rows; ++place.head) {
      for (int64_t first = 0; first < work->segment_pairs; first += work->held_pairs) {
        const int64_t left = work->segment_pairs - first;
        const RowPart part = {place, first, left < work->held_pairs ? left : work->held_pairs};
        if constexpr (read != write) {
          if (work->whole_heads) {
            rotate_whole_heads<dtype, read, write>(work, part, memory, block);
            continue;
          }
        }
        rotate_part<dtype, read, write, width>(work, part, memory, block);
      }
    }
  }
  block.each([&](int thread, int threads) { copy_rest<dtype>(work, place, thread, threads); });
}

}  // namespace phasor::cuda
