// SPDX-License-Identifier: Apache-2.0
// Encodings added to tokens: rows made as for rotation, laid out as the channels lie, and one addition a value.

/// Where some channels are read (null: not at all) and written.
template <DType dtype>
struct Channels {
  using Storage = typename Element<dtype>::Storage;
  const Storage* in;
  Storage* out;

  Channels from(std::int64_t channel) const { return {in == nullptr ? nullptr : in + channel, out + channel}; }
};

/// Channels of a token.
template <DType dtype>
Channels<dtype> channels_at(const job::AddTarget& target, std::int64_t batch, std::int64_t token) {
  using Storage = typename Element<dtype>::Storage;
  const std::byte* in = target.in == nullptr ? nullptr : target.in + batch * target.in_strides[0] + token * target.in_strides[1];
  return {reinterpret_cast<const Storage*>(in),
          reinterpret_cast<Storage*>(target.out + batch * target.out_strides[0] + token * target.out_strides[1])};
}

/// Channels whose encoding is 0: written as such, or left bit for bit.
template <DType dtype>
void keep_channels(const Channels<dtype>& x, std::int64_t count) {
  using Storage = typename Element<dtype>::Storage;
  if (x.in == nullptr) {
    std::fill_n(x.out, count, Storage{});
  } else if (x.in != x.out && count > 0) {
    std::memcpy(x.out, x.in, static_cast<std::size_t>(count) * sizeof(Storage));
  }
}

/// One value per channel.
template <DType dtype, class T>
void add_values(const Channels<dtype>& x, const T* values, std::int64_t count) {
  using E = Element<dtype>;
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; x.in != nullptr && i + lanes <= count; i += lanes) {
    const auto sum = hn::Add(load_channels<dtype>(d, x.in + i), hn::LoadU(d, values + i));
    store_channels<dtype, Variant::plain>(d, sum, x.out + i);
  }
  for (; x.in == nullptr && i + lanes <= count; i += lanes) store_channels<dtype, Variant::plain>(d, hn::LoadU(d, values + i), x.out + i);
#endif
  for (; i < count; ++i) x.out[i] = E::narrow(x.in == nullptr ? values[i] : E::widen(x.in[i]) + values[i]);
}

/// first[0], second[0], first[1], ...
template <class T>
void interleave(const T* first, const T* second, std::int64_t count, T* to) {
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) hn::StoreInterleaved2(hn::LoadU(d, first + i), hn::LoadU(d, second + i), d, to + 2 * i);
#endif
  for (; i < count; ++i) {
    to[2 * i] = first[i];
    to[2 * i + 1] = second[i];
  }
}

/// A part of the row source whose one axis is the axis of an encoding's part.
inline job::RowSource source_of_axis(const job::RowSource& source, std::int64_t axis) {
  job::RowSource one = source;
  const std::int64_t size = source.positions.type == PositionType::i32 ? 4 : 8;
  if (one.positions.data != nullptr) {
    one.positions.data = static_cast<const std::byte*>(source.positions.data) + axis * source.positions.axis_stride * size;
  }
  return one;
}

template <DType dtype>
class AddTask {
  using T = typename Element<dtype>::Value;

 public:
  AddTask(const job::AddJob& job, const Extent& extent) : job_(job), extent_(extent) {}

  void run() {
    for (std::int64_t p = 0; p < job_.part_count; ++p) add_part(job_.parts[p]);
  }

 private:
  void add_part(const spec::AxisPart& part) {
    const job::RowSource source = source_of_axis(job_.rows, part.axis);
    for (std::int64_t first = 0; first < part.pairs; first += kBlockValues) {
      const std::int64_t count = std::min(kBlockValues, part.pairs - first);
      const std::int64_t rows = std::clamp(kBlockValues / count, std::int64_t{1}, kMaxBlockRows);
      for (std::int64_t t = 0; t < extent_.tokens; t += rows) {
        const RowBlock<T> block = {part.pair + first, count, cos_, sin_, count};
        add_rows(part, source, block, {extent_.first_batch, extent_.first_token + t, std::min(rows, extent_.tokens - t)});
      }
    }
    keep_rest(part);
  }

  void add_rows(const spec::AxisPart& part, const job::RowSource& source, const RowBlock<T>& block, RowRange rows) {
    for (; rows.batch < extent_.end_batch; ++rows.batch) {
      if (rows.batch == extent_.first_batch || !source.shared) make_rows(source, block, rows);
      for (std::int64_t r = 0; r < rows.count; ++r) {
        const Channels<dtype> x = channels_at<dtype>(job_.target, rows.batch, rows.token + r);
        is_zero(source, rows.batch, rows.token + r) ? keep_row(x, part, block) : add_row(x, part, block, r);
      }
    }
  }

  void make_rows(const job::RowSource& source, const RowBlock<T>& block, const RowRange& rows) {
    fill_rows(source, rows, block);
    if (!job_.negative) return;
    for (std::int64_t i = 0; i < rows.count * block.stride; ++i) {
      cos_[i] = -cos_[i];
      sin_[i] = -sin_[i];
    }
  }

  /// How many second halves of pairs the block has: an unpaired last pair has none.
  static std::int64_t seconds(const spec::AxisPart& part, const RowBlock<T>& block) {
    return part.unpaired && block.first + block.count == part.pair + part.pairs ? block.count - 1 : block.count;
  }

  void add_row(const Channels<dtype>& x, const spec::AxisPart& part, const RowBlock<T>& block, std::int64_t r) {
    const T* sin = sin_ + r * block.stride;
    const T* cos = cos_ + r * block.stride;
    const std::int64_t at = block.first - part.pair;
    const std::int64_t second = seconds(part, block);
    if (job_.order == SinusoidOrder::interleaved) {
      interleave(sin, cos, block.count, lanes_);
      return add_values<dtype>(x.from(part.channel + 2 * at), lanes_, block.count + second);
    }
    const bool sin_first = job_.order == SinusoidOrder::sin_cos;
    add_values<dtype>(x.from(part.channel + at), sin_first ? sin : cos, block.count);
    add_values<dtype>(x.from(part.channel + part.pairs + at), sin_first ? cos : sin, second);
  }

  void keep_row(const Channels<dtype>& x, const spec::AxisPart& part, const RowBlock<T>& block) {
    const std::int64_t at = block.first - part.pair;
    const std::int64_t second = seconds(part, block);
    if (job_.order == SinusoidOrder::interleaved) return keep_channels<dtype>(x.from(part.channel + 2 * at), block.count + second);
    keep_channels<dtype>(x.from(part.channel + at), block.count);
    keep_channels<dtype>(x.from(part.channel + part.pairs + at), second);
  }

  /// The channel behind the pairs of an odd width.
  void keep_rest(const spec::AxisPart& part) {
    const std::int64_t used = 2 * part.pairs - (part.unpaired ? 1 : 0);
    if (used == part.width) return;
    for (std::int64_t b = extent_.first_batch; b < extent_.end_batch; ++b) {
      for (std::int64_t t = 0; t < extent_.tokens; ++t) {
        keep_channels<dtype>(channels_at<dtype>(job_.target, b, extent_.first_token + t).from(part.channel + used), part.width - used);
      }
    }
  }

  bool is_zero(const job::RowSource& source, std::int64_t batch, std::int64_t token) const {
    if (!job_.has_zero) return false;
    const job::PositionSource& p = source.positions;
    if (p.data == nullptr || p.type != PositionType::f64) return position_at<std::int64_t>(p, 0, batch, token) == job_.zero_position;
    return position_at<double>(p, 0, batch, token) == static_cast<double>(job_.zero_position);
  }

  const job::AddJob& job_;
  Extent extent_;
  alignas(64) T cos_[kBlockValues];
  alignas(64) T sin_[kBlockValues];
  alignas(64) T lanes_[2 * kBlockValues];
};

inline void add_task(const Running<job::AddJob>& run, std::int64_t task) {
  const job::AddJob& job = run.job;
  const Extent extent = extent_of(run, task);
  switch (job.target.dtype) {
    case DType::f32:
      return AddTask<DType::f32>(job, extent).run();
    case DType::f64:
      return AddTask<DType::f64>(job, extent).run();
    case DType::f16:
      return AddTask<DType::f16>(job, extent).run();
    case DType::bf16:
      return AddTask<DType::bf16>(job, extent).run();
  }
}

template <DType dtype>
class LookupTask {
  using T = typename Element<dtype>::Value;

 public:
  LookupTask(const job::LookupJob& job, const Extent& extent) : job_(job), extent_(extent) {}

  void run() {
    for (std::int64_t b = extent_.first_batch; b < extent_.end_batch; ++b) {
      for (std::int64_t t = 0; t < extent_.tokens; ++t) add_token(b, extent_.first_token + t);
    }
  }

 private:
  void add_token(std::int64_t batch, std::int64_t token) {
    Channels<dtype> x = channels_at<dtype>(job_.target, batch, token);
    for (std::int64_t a = 0; a < job_.table_count; ++a) {
      const job::LookupTable& table = job_.tables[a];
      const std::int64_t row = position_at<std::int64_t>(job_.positions, a, batch, token) + job_.offset;
      for (std::int64_t c = 0; c < table.width; c += kBlockValues) {
        const std::int64_t count = std::min(kBlockValues, table.width - c);
        fill_from_table<T>({table.data, table.dtype, row * table.row_stride + c, 1, T{1}}, count, values_);
        add_values<dtype>(x.from(c), values_, count);
      }
      x = x.from(table.width);
    }
  }

  const job::LookupJob& job_;
  Extent extent_;
  alignas(64) T values_[kBlockValues];
};

inline void lookup_task(const Running<job::LookupJob>& run, std::int64_t task) {
  const job::LookupJob& job = run.job;
  const Extent extent = extent_of(run, task);
  switch (job.target.dtype) {
    case DType::f32:
      return LookupTask<DType::f32>(job, extent).run();
    case DType::f64:
      return LookupTask<DType::f64>(job, extent).run();
    case DType::f16:
      return LookupTask<DType::f16>(job, extent).run();
    case DType::bf16:
      return LookupTask<DType::bf16>(job, extent).run();
  }
}
