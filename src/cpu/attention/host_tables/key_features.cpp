// SPDX-License-Identifier: Apache-2.0
// What meets a table on the key side, on the host side.
#include "cpu/attention/host_tables/key_features.hpp"

#include <algorithm>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/ranges.hpp"
#include "cpu/common/runner.hpp"
#include "job/element.hpp"

namespace phasor::attend {
namespace {

/// Whether a query may see the key.
bool is_seen(const AttentionJob& job, const Sequence& sequence, const PositionRange& queries, std::int64_t key) {
  const MaskJob& mask = job.mask;
  const std::uint8_t* const shown = mask.key_mask;
  if (shown != nullptr && shown[sequence.batch * mask.mask_strides[0] + key * mask.mask_strides[1]] == 0) return false;
  if (queries.empty()) return false;
  const std::int64_t position = job.key_positions[sequence.batch * job.key_position_stride + key];
  if (mask.causal && position > queries.greatest && position >= sequence.prefix) return false;
  return queries.least - position <= mask.left && position - queries.greatest <= mask.right;
}

template <class T, class Element>
void pack_row(const Element* in, std::int64_t stride, std::int64_t width, T* out) {
  for (std::int64_t c = 0; c < width; ++c) out[c] = static_cast<T>(job::number_of(in[c * stride]));
}

/// One batch row and head: tile by tile, since a tile knows its sequence. Shared features hold what any batch row sees.
template <class T>
void pack_one(const ConstTensorView& v, const AttentionJob& job, const RowIndex& which, T* out) {
  const std::int64_t padded_width = padded(v.shape[3]);
  std::fill_n(out, (job.shape.keys + kKeyTile) * padded_width, T{0});
  for (std::size_t t = 0; t < job.key_tiles.size(); ++t) {
    const TokenTile& tile = job.key_tiles[t];
    const Sequence& sequence = job.sequences[static_cast<std::size_t>(tile.sequence)];
    if (v.shape[0] > 1 && sequence.batch != which.b) continue;
    const PositionRange queries = query_positions_of(job, sequence);
    for (std::int64_t j = tile.first; j < tile.first + tile.count; ++j) {
      if (!is_seen(job, sequence, queries, j)) continue;
      job::with_element(v.dtype, [&](auto tag) {
        using Element = typename decltype(tag)::type;
        const Element* const in = static_cast<const Element*>(v.data) + which.b * v.strides[0] + j * v.strides[1] + which.h * v.strides[2];
        pack_row(in, v.strides[3], v.shape[3], out + j * padded_width);
      });
    }
  }
}

}  // namespace

KeyFeatures pack_key_features(const ConstTensorView& v, const TermContext& context, Arena& arena) {
  const AttentionJob& job = *context.job;
  const std::int64_t size = (job.shape.keys + kKeyTile) * padded(v.shape[3]);
  const std::int64_t batch = v.shape[0];
  const std::int64_t heads = v.shape[2];
  const KeyFeatures made{arena.take_bytes(batch * heads * size * bytes_of(job.arithmetic)), batch == 1 ? 0 : heads * size,
                         heads == 1 ? 0 : size};
  if (made.data == nullptr) return made;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    cpu::run_each(*context.runner, batch * heads,
                  [&](std::int64_t n) { pack_one(v, job, {.b = n / heads, .h = n % heads}, static_cast<T*>(made.data) + n * size); });
  });
  return made;
}

void* take_feature_sums(std::int64_t padded_width, const AttentionJob& job, Arena& arena) {
  const std::int64_t count = job.shape.batch * job.shape.key_heads * job.shape.keys * padded_width;
  void* const memory = arena.take_bytes(count * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T zero) { std::fill_n(static_cast<T*>(memory), count, zero); });
  return memory;
}

void add_feature_sums(const void* sums, std::int64_t padded_width, const TermContext& context) {
  const TensorView& gradient = context.gradient->features;
  const Extents& shape = gradient.shape;
  const AttentionShape& s = context.job->shape;
  with_arithmetic(context.job->arithmetic, [&]<class T>(T) {
    for (std::int64_t n = 0; n < shape[0] * shape[2] * shape[1] * shape[3]; ++n) {
      const std::int64_t c = n % shape[3];
      const RowIndex row{n / (shape[1] * shape[2] * shape[3]), n / (shape[2] * shape[3]) % shape[1], n / shape[3] % shape[2]};
      double sum = 0;
      for (std::int64_t b = row.b; b < (shape[0] == 1 ? s.batch : row.b + 1); ++b) {
        for (std::int64_t h = row.h; h < (shape[2] == 1 ? s.key_heads : row.h + 1); ++h) {
          sum += static_cast<double>(static_cast<const T*>(sums)[((b * s.key_heads + h) * s.keys + row.t) * padded_width + c]);
        }
      }
      add_to_element(gradient, row, c, sum);
    }
  });
}

}  // namespace phasor::attend
