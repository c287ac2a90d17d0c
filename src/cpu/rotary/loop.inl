// SPDX-License-Identifier: Apache-2.0
// The row loop: a task makes a block of rows and turns every head of every operand by them.

/// Tokens whose heads are turned in one go: their rows laid out for registers (8 KiB) stay in L1 beside the block. Elsewhere than on NEON
/// a token at a time is as fast.
constexpr std::int64_t kTokensAtOnce = kNeon ? 8 : 1;

/// Copies the channels that a rotation out of place leaves alone: [0, offset), [offset + R, head_dim).
inline void copy_rest(const job::RotateJob& job, const Heads& heads) {
  if (heads.in == heads.out) return;
  const std::int64_t size = bytes_of(job.dtype);
  const std::size_t before = static_cast<std::size_t>(job.offset * size);
  const std::int64_t end = job.offset + 2 * job.pairs;
  const std::size_t after = static_cast<std::size_t>((job.head_dim - end) * size);
  for (std::int64_t h = 0; h < heads.count; ++h) {
    const std::byte* in = heads.in + h * heads.in_stride - before;
    std::byte* out = heads.out + h * heads.out_stride - before;
    if (before != 0) std::memcpy(out, in, before);
    if (after != 0) std::memcpy(out + end * size, in + end * size, after);
  }
}

/// Out of place, pairs left alone are copied; in place and in the same pairing there is nothing to do.
template <DType dtype, Pairing read, Pairing write, class T>
void move_unturned(const Row<T>& row, const Heads& heads, std::int64_t from, std::int64_t pairs) {
  using Storage = typename Element<dtype>::Storage;
  if (from == pairs || (heads.in == heads.out && read == write)) return;
  for (std::int64_t h = 0; h < heads.count; ++h) {
    for (std::int64_t i = from; i < pairs; ++i) {
      rotate_one<dtype, read, write, Variant::plain>(
          row, heads, i,
          {reinterpret_cast<const Storage*>(heads.in + h * heads.in_stride), reinterpret_cast<Storage*>(heads.out + h * heads.out_stride)});
    }
  }
}

/// One token of one operand.
template <DType dtype, Pairing read, Pairing write, class T>
void rotate_token(const Row<T>& row, const Heads& heads, std::int64_t pairs) {
  // In place across pairings every channel moves, so a head is done whole.
  const bool whole = read != write && heads.in == heads.out;
  const std::int64_t turning = whole || row.turns_all ? pairs : pairs_to_turn(row, pairs);
  if (turning > 0) {
    Row<T> ready = row;
    ready.identity_inside = !row.turns_all && has_identity(row, turning);
    ready.identity_inside ? rotate_around<dtype, read, write>(ready, heads, turning)
                          : rotate_heads<dtype, read, write>(ready, heads, turning);
  }
  move_unturned<dtype, read, write>(row, heads, turning, pairs);
}

/// What one task covers.
struct Extent {
  std::int64_t first_batch;
  std::int64_t end_batch;
  std::int64_t first_token;
  std::int64_t tokens;
};

template <class Job>
Extent extent_of(const Running<Job>& run, std::int64_t task) {
  const Job& job = run.job;
  const TaskGrid& grid = run.grid;
  if (grid.tasks == 1) return {0, job.batch, 0, job.tokens};
  const std::int64_t b = task / grid.row_blocks * grid.batches_per_task;
  const std::int64_t t = task % grid.row_blocks * grid.rows_per_task;
  return {b, std::min(b + grid.batches_per_task, job.batch), t, std::min(grid.rows_per_task, job.tokens - t)};
}

inline bool is_skipped(const job::RotateJob& job, std::int64_t token) { return job.slots != nullptr && job.slots[token] < 0; }

inline Heads heads_at(const job::RotateJob& job, const job::Operand& operand, std::int64_t batch, std::int64_t token, bool stream) {
  if (job.slots != nullptr) {
    batch = job.slots[token] / job.page_size;
    token = job.slots[token] % job.page_size;
  }
  const std::int64_t skip = job.offset * bytes_of(job.dtype);
  return {operand.in + batch * operand.in_strides[0] + token * operand.in_strides[1] + skip,
          operand.out + batch * operand.out_strides[0] + token * operand.out_strides[1] + skip,
          operand.heads,
          operand.in_strides[2],
          operand.out_strides[2],
          job.pairs,
          0,
          stream};
}

template <DType dtype, Pairing read, Pairing write>
class RotateTask {
  using T = typename Element<dtype>::Value;

 public:
  RotateTask(const Running<job::RotateJob>& run, const Extent& extent)
      : job_(run.job), extent_(extent), stream_(run.stream), is_plain_(is_plain(run)) {}

  void turn() {
    const std::int64_t pairs = job_.segments == 1 ? job_.pairs : job_.pairs / job_.segments;
    for (; segment_ < job_.pairs; segment_ += pairs) turn_segment(pairs);
#if PHASOR_LANES
    if (stream_) hwy::FlushStream();
#endif
  }

 private:
  void turn_segment(std::int64_t pairs) {
    const std::int64_t end = segment_ + pairs;
    for (std::int64_t first = segment_; first < end; first += kBlockValues) {
      const std::int64_t count = std::min(kBlockValues, end - first);
      const std::int64_t rows = std::clamp(kBlockValues / count, std::int64_t{1}, kMaxBlockRows);
      for (std::int64_t t = 0; t < extent_.tokens; t += rows) {
        const std::int64_t n = std::min(rows, extent_.tokens - t);
        const RowBlock<T> block = {first, count, buffers_.cos, buffers_.sin, count};
        rotate_rows(block, {extent_.first_batch, extent_.first_token + t, n});
      }
    }
  }

  void rotate_rows(const RowBlock<T>& block, RowRange rows) {
    for (; rows.batch < extent_.end_batch; ++rows.batch) {
      if ((job_.rows.step_head_stride | job_.rows.tables.cos_head_stride | job_.rows.tables.sin_head_stride) != 0) {
        rotate_by_head(block, rows);
        continue;
      }
      if (rows.batch == extent_.first_batch || !job_.rows.shared) make_rows(job_.rows, block, rows);
      for (std::int64_t r = 0; r < rows.count;) {
        std::int64_t done = 0;
        if constexpr (read == write && kTokensAtOnce > 1) done = rotate_together(block, rows, r);
        if (done == 0) rotate_row(block, rows, r);
        r += std::max(done, std::int64_t{1});
      }
    }
  }

  void rotate_row(const RowBlock<T>& block, const RowRange& rows, std::int64_t r) {
    if (is_skipped(job_, rows.token + r)) return;
    const Row<T> row = row_of(block, r);
    for (int o = 0; o < job_.operand_count; ++o) rotate(row, heads_at(job_, job_.operands[o], rows.batch, rows.token + r, stream_), block);
  }

  /// The tokens of rows from `r` on, up to kTokensAtOnce, as long as all pairs of their rows turn and nothing else is to be done to them.
  /// Returns how many; 0: row `r` is not of that kind.
  std::int64_t rotate_together(const RowBlock<T>& block, const RowRange& rows, std::int64_t r) {
    if (!is_plain_) return 0;
    const std::int64_t most = std::min(kTokensAtOnce, rows.count - r);
    std::int64_t count = 0;
    for (; count < most; ++count) {
      if (!job_.turns_all && has_zero(block.sin + (r + count) * block.stride, block.count)) break;
      lay_out(row_at(block, r + count), block.count, count);
    }
    if (count == 0) return 0;
    const Row<T> row = row_at(block, r);
    for (int o = 0; o < job_.operand_count; ++o) {
      const job::Operand& operand = job_.operands[o];
      const TokenSteps steps = {count, operand.in_strides[1], operand.out_strides[1], block.stride, lane_step(block.count)};
      rotate_tokens<dtype, read>(row, in_segment(heads_at(job_, operand, rows.batch, rows.token + r, stream_), block), steps, block.count);
    }
    return count;
  }

  /// Whether tokens lie one stride apart, are turned as variant plain, and have no channels that are only copied.
  static bool is_plain(const Running<job::RotateJob>& run) {
    const job::RotateJob& job = run.job;
    bool copies = false;
    for (int o = 0; o < job.operand_count; ++o) copies |= job.operands[o].in != job.operands[o].out;
    return job.slots == nullptr && !run.stream && !job.rounds_products && job.rows.second_lane == 0 && job.rows.step_lane_stride == 0 &&
           (!copies || job.head_dim == 2 * job.pairs);
  }

  /// Every head has a ladder or table of its own.
  void rotate_by_head(const RowBlock<T>& block, const RowRange& rows) {
    std::int64_t heads = 0;
    for (int o = 0; o < job_.operand_count; ++o) heads = std::max(heads, job_.operands[o].heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      make_rows(source_of_head(job_.rows, h), block, rows);
      for (std::int64_t r = 0; r < rows.count; ++r) {
        const Row<T> row = row_of(block, r);
        for (int o = 0; o < job_.operand_count; ++o) {
          if (h >= job_.operands[o].heads) continue;
          Heads head = heads_at(job_, job_.operands[o], rows.batch, rows.token + r, stream_);
          head.in += h * head.in_stride;
          head.out += h * head.out_stride;
          head.count = 1;
          rotate(row, head, block);
        }
      }
    }
  }

  void make_rows(const job::RowSource& source, const RowBlock<T>& block, const RowRange& rows) {
    if (segment_ != 0 && source.second_lane != 0 && source.pair_stride == 1) {
      // A full-width table in half pairing has both lanes of a segment before the next segment.
      job::RowSource shifted = source;
      shifted.tables.cos += segment_ * bytes_of(source.tables.dtype);
      shifted.tables.sin += segment_ * bytes_of(source.tables.dtype);
      return make_lanes(shifted, block, rows);
    }
    make_lanes(source, block, rows);
  }

  void make_lanes(const job::RowSource& source, const RowBlock<T>& block, const RowRange& rows) {
    fill_rows(source, rows, block);
    const RowBlock<T> second = {block.first, block.count, buffers_.second_cos, buffers_.second_sin, block.stride};
    if (source.second_lane != 0) fill_from_tables(source, rows, second, 1);
    if (source.step_lane_stride != 0) fill_rows(source_of_second_lane(source), rows, second);
  }

  /// Row `r` of a block, to be laid out yet.
  Row<T> row_at(const RowBlock<T>& block, std::int64_t r) const {
    const T* cos = block.cos + r * block.stride;
    const T* sin = block.sin + r * block.stride;
    const bool differ = job_.rows.second_lane != 0 || job_.rows.step_lane_stride != 0;
    Row<T> row = {{cos, differ ? buffers_.second_cos + r * block.stride : cos},
                  {sin, differ ? buffers_.second_sin + r * block.stride : sin},
                  buffers_.cos_lanes,
                  buffers_.sin_lanes,
                  false,
                  job_.turns_all,
                  job_.rounds_products,
                  (job_.rows.kind == job::RowSource::Kind::tables ? job_.rows.tables.dtype : job_.rows.value_dtype) == DType::bf16};
    // Tables are read with their sines swapped already.
    if (job_.rows.step_lane_stride != 0 && job_.rows.swap_sines) std::swap(row.sin[0], row.sin[1]);
    return row;
  }

  /// Values of one row laid out for registers.
  static constexpr std::int64_t lane_step(std::int64_t pairs) {
    return register_layout<dtype, read, write>() == RegisterLayout::side_by_side ? 2 * pairs : 0;
  }

  /// A row as registers want it, the `at`-th in the buffers.
  void lay_out(const Row<T>& row, std::int64_t pairs, std::int64_t at) {
    constexpr RegisterLayout kLayout = register_layout<dtype, read, write>();
    if constexpr (kLayout == RegisterLayout::side_by_side) {
      spread_lanes(row, pairs, buffers_.cos_lanes + at * lane_step(pairs), buffers_.sin_lanes + at * lane_step(pairs));
    }
    if constexpr (kLayout == RegisterLayout::even_odd) {
      separate_pairs(row.cos[0], pairs, buffers_.cos_lanes);
      separate_pairs(row.sin[0], pairs, buffers_.sin_lanes);
    }
  }

  Row<T> row_of(const RowBlock<T>& block, std::int64_t r) {
    const Row<T> row = row_at(block, r);
    lay_out(row, block.count, 0);
    return row;
  }

  Heads in_segment(Heads heads, const RowBlock<T>& block) const {
    if (job_.segments != 1) {
      heads.in += 2 * segment_ * bytes_of(job_.dtype);
      heads.out += 2 * segment_ * bytes_of(job_.dtype);
      heads.half = job_.pairs / job_.segments;
    }
    heads.first = block.first - segment_;
    return heads;
  }

  void rotate(const Row<T>& row, const Heads& heads, const RowBlock<T>& block) {
    if (block.first == 0) copy_rest(job_, heads);
    rotate_token<dtype, read, write>(row, in_segment(heads, block), block.count);
  }

  const job::RotateJob& job_;
  Extent extent_;
  const bool stream_;
  const bool is_plain_;
  std::int64_t segment_ = 0;  // first pair of the segment being turned
  RowBuffers<T> buffers_;
};

template <DType dtype>
void rotate_task_of(const Running<job::RotateJob>& run, const Extent& extent) {
  const job::RotateJob& job = run.job;
  constexpr Pairing kHalf = Pairing::half;
  constexpr Pairing kInterleaved = Pairing::interleaved;
  if (job.read == kHalf && job.write == kHalf) return RotateTask<dtype, kHalf, kHalf>(run, extent).turn();
  if (job.read == kHalf) return RotateTask<dtype, kHalf, kInterleaved>(run, extent).turn();
  if (job.write == kHalf) return RotateTask<dtype, kInterleaved, kHalf>(run, extent).turn();
  RotateTask<dtype, kInterleaved, kInterleaved>(run, extent).turn();
}

inline void rotate_task(const Running<job::RotateJob>& run, std::int64_t task) {
  const Extent extent = extent_of(run, task);
  switch (run.job.dtype) {
    case DType::f32:
      return rotate_task_of<DType::f32>(run, extent);
    case DType::f64:
      return rotate_task_of<DType::f64>(run, extent);
    case DType::f16:
      return rotate_task_of<DType::f16>(run, extent);
    case DType::bf16:
      return rotate_task_of<DType::bf16>(run, extent);
  }
}

/// Rows of one head: where its cosines and sines go in a batch row.
template <class T>
struct RowsOut {
  T* cos;
  T* sin;
};

template <class T>
void write_head_rows(const job::RowsJob& job, const job::RowSource& source, const RowRange& all, const RowsOut<T>& out) {
  const bool one_pass = job.cos_strides[1] == job.sin_strides[1];
  for (std::int64_t t = 0; t < all.count; t += one_pass ? kMaxBlockRows : 1) {
    const RowRange rows = {all.batch, all.token + t, one_pass ? std::min(kMaxBlockRows, all.count - t) : 1};
    T* cos = out.cos + rows.token * job.cos_strides[1];
    T* sin = out.sin + rows.token * job.sin_strides[1];
    if (job.tile != 0) {
      write_per_channel_rows(job, rows, RowBlock<T>{0, job.pairs, cos, sin, job.cos_strides[1]});
    } else {
      fill_rows(source, rows, RowBlock<T>{0, job.pairs, cos, sin, job.cos_strides[1]});
    }
  }
}

template <class T>
void write_rows(const job::RowsJob& job, const Extent& extent) {
  for (std::int64_t b = extent.first_batch; b < extent.end_batch; ++b) {
    T* cos = reinterpret_cast<T*>(job.cos) + b * job.cos_strides[0];
    T* sin = reinterpret_cast<T*>(job.sin) + b * job.sin_strides[0];
    const RowRange rows = {b, extent.first_token, extent.tokens};
    write_head_rows<T>(job, job.rows, rows, {cos, sin});
    for (std::int64_t h = 1; h < job.heads; ++h) {
      write_head_rows<T>(job, source_of_head(job.rows, h), rows, {cos + h * job.cos_strides[2], sin + h * job.sin_strides[2]});
    }
  }
}

inline void fill_rows_task(const Running<job::RowsJob>& run, std::int64_t task) {
  const job::RowsJob& job = run.job;
  const Extent extent = extent_of(run, task);
  job.dtype == DType::f64 ? write_rows<double>(job, extent) : write_rows<float>(job, extent);
}
