// SPDX-License-Identifier: Apache-2.0
// Random problems of decoding over pages, and what a naive reference in double makes of them, with bounds of the arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cuda/attention/decode/run.hpp"
#include "job/element.hpp"

namespace phasor::test {

using cuda::decode::DecodeWork;

/// What a list of a problem is: all memory of the device, which the host reads, too.
struct DecodeProblem {
  DecodeWork work;
  std::string text;
  int64_t cache_blocks = 0;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> blocks;
  std::vector<std::uint8_t> mask;
  std::vector<float> diagonal;
  std::vector<float> sinks;
  std::vector<float> scales;  // of keys, then of values
  bool heads_first = false;
  bool has_mask = false;
};

inline DecodeProblem random_decode(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const auto one_of = [&](std::initializer_list<int> list) { return list.begin()[below(static_cast<int>(list.size()))]; };
  DecodeProblem p;
  DecodeWork& w = p.work;
  w.storage = static_cast<Storage>(one_of({1, 2, 2, 3, 4}));
  w.width = one_of({64, 128, 128, 256});
  w.batch = 1 + below(4);
  w.queries = one_of({1, 1, 2, 3, 5, 16, 17});
  w.key_heads = 1 + below(3);
  w.group = one_of({1, 2, 4, 8, 5});
  w.heads = w.group * w.key_heads;
  w.page_size = one_of({1, 16, 17, 64, 256});
  w.page_shift = (w.page_size & (w.page_size - 1)) == 0 ? __builtin_ctz(static_cast<unsigned>(w.page_size)) : -1;
  w.pages = (one_of({40, 600, 1300, 2100}) + w.page_size - 1) / w.page_size;
  w.room = w.pages * w.page_size;
  w.splits = static_cast<int>((w.room + cuda::decode::kSplit - 1) / cuda::decode::kSplit);
  const auto room = static_cast<int>(w.room);
  for (int b = 0; b < w.batch; ++b) {
    const int of_pages = w.page_size * (1 + below(static_cast<int>(w.pages)));
    p.lengths.push_back(std::min(room, one_of({0, 1, room, of_pages, std::max(0, of_pages - 1), of_pages + 1, below(room + 1), 512, 513})));
  }
  p.cache_blocks = w.batch * w.pages + 3;
  for (int64_t n = 0; n < w.batch * w.pages; ++n) p.blocks.push_back(static_cast<std::int32_t>(n + 2));
  std::shuffle(p.blocks.begin(), p.blocks.end(), random);
  p.heads_first = below(2) == 0;
  w.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(w.width)));
  if (below(3) > 0) w.right = 0;
  if (below(4) == 0) w.left = below(700);
  if (below(6) == 0) w.right = below(4);
  if (below(4) == 0) w.softcap = 3;
  if (below(3) == 0) {
    w.first_distance = -(w.room + w.queries);
    w.distances = 2 * w.room + w.queries + 1;
    w.far_left = below(2) == 0 ? 100 : w.first_distance + w.distances - 1;
    const bool by_query = below(2) == 0;  // as tables that meet queries have it
    const int rows = by_query ? w.batch * w.queries * w.heads : w.heads;
    w.diagonal_strides[2] = w.distances;
    if (by_query) w.diagonal_strides[1] = w.heads * w.distances, w.diagonal_strides[0] = w.queries * w.diagonal_strides[1];
    for (int row = 0; row < rows; ++row) {
      for (int64_t n = 0; n < w.distances; ++n) {
        const int64_t r = std::min<int64_t>(w.first_distance + n, w.far_left);
        p.diagonal.push_back(static_cast<float>(std::sin(static_cast<double>(r) * 0.37 + row)));
      }
    }
  }
  if (below(4) == 0) {
    for (int h = 0; h < w.heads; ++h) p.sinks.push_back(static_cast<float>(h) * 0.3F - 0.5F);
  }
  p.has_mask = below(5) == 0;
  if (p.has_mask) {
    for (int64_t n = 0; n < w.batch * w.room; ++n) p.mask.push_back(random() % 4 != 0);
  }
  if (w.storage > Storage::bf16) {
    for (int n = 0; n < 2 * w.key_heads; ++n) p.scales.push_back(0.01F + 0.02F * static_cast<float>(n));
  }
  w.q.dtype = w.storage == Storage::f16 ? DType::f16 : DType::bf16;
  if (below(4) == 0) w.q.dtype = DType::f32;  // shifted
  p.text = "seed " + std::to_string(seed) + ": " + name_of(w.storage) + ", width " + std::to_string(w.width) + ", batch " +
           std::to_string(w.batch) + ", queries " + std::to_string(w.queries) + ", heads " + std::to_string(w.key_heads) + " x " +
           std::to_string(w.group) + ", page " + std::to_string(w.page_size) + ", room " + std::to_string(w.room);
  return p;
}

inline double cached_number(Storage storage, const std::byte* at) { return job::stored_value(storage, at); }

struct DecodedRow {
  std::vector<double> out, out_bound;
  double lse = -INFINITY, lse_bound = 0;
};
/// Row (batch, query, head); memory is read by the host.
inline DecodedRow expected_decode(const DecodeProblem& p, int b, int i, int h, DType out_dtype) {
  const DecodeWork& w = p.work;
  const int width = w.width, kh = h / w.group;
  const int64_t keys = p.lengths[static_cast<std::size_t>(b)], position = keys - w.queries + i;
  const bool f16 = w.storage != Storage::bf16;
  const double k_scale = p.scales.empty() ? 1 : p.scales[static_cast<std::size_t>(kh)];
  const double v_scale = p.scales.empty() ? 1 : p.scales[static_cast<std::size_t>(w.key_heads + kh)];
  std::vector<double> scores, errors;
  std::vector<const std::byte*> values;
  const int64_t size = bytes_of(w.storage);
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t r = position - j;
    if (r > w.left || -r > w.right) continue;
    if (p.has_mask && p.mask[static_cast<std::size_t>(b * w.room + j)] == 0) continue;
    const int64_t block = p.blocks[static_cast<std::size_t>(b * w.pages + j / w.page_size)], token = j % w.page_size;
    const std::byte* const k = w.k.data + block * w.k.strides[0] + token * w.k.strides[1] + kh * w.k.strides[2];
    double sum = 0, most = 0;
    for (int c = 0; c < width; ++c) {
      const double x = job::load_element(w.q.data, w.q.dtype, b * w.q.strides[0] + i * w.q.strides[1] + h * w.q.strides[2] + c) *
                       cached_number(w.storage, k + c * size);
      sum += x, most += std::abs(x);
    }
    double s = sum * w.scale * k_scale;
    // Sums of tensor cores drop bits below 2^-22 of the greatest; q in two parts of 16 bits loses 2^-16 of bf16, 2^-21 of f16.
    double error = most * w.scale * k_scale * (width / 16 * 0x1p-21 + (w.q.dtype == DType::f32 ? 0x1p-16 : 0x1p-20));
    if (!p.diagonal.empty()) {
      const int64_t* const strides = w.diagonal_strides;
      const int64_t n = std::clamp<int64_t>(r - w.first_distance, 0, w.distances - 1);
      s += p.diagonal[static_cast<std::size_t>(b * strides[0] + i * strides[1] + h * strides[2] + n)];
    }
    if (w.softcap != 0) s = w.softcap * std::tanh(s / w.softcap), error += w.softcap * 0x1p-20;
    scores.push_back(s);
    errors.push_back(error + (std::abs(s) + 1) * 0x1p-21);
    values.push_back(w.v.data + block * w.v.strides[0] + token * w.v.strides[1] + kh * w.v.strides[2]);
  }
  DecodedRow row;
  row.out.assign(static_cast<std::size_t>(width), 0), row.out_bound = row.out;
  double most = -INFINITY;
  for (const double s : scores) most = std::max(most, s);
  if (!p.sinks.empty()) most = std::max<double>(most, p.sinks[static_cast<std::size_t>(h)]);
  if (most == -INFINITY) return row;
  double sum = p.sinks.empty() ? 0 : std::exp(p.sinks[static_cast<std::size_t>(h)] - most), worst = 0x1p-20;
  for (std::size_t n = 0; n < scores.size(); ++n) sum += std::exp(scores[n] - most), worst = std::max(worst, errors[n]);
  row.lse = most + std::log(sum);
  row.lse_bound = worst + 0x1p-19 * (1 + std::abs(row.lse));
  std::vector<double> magnitude(static_cast<std::size_t>(width), 0);
  for (std::size_t n = 0; n < scores.size(); ++n) {
    const double weight = std::exp(scores[n] - most) / sum;
    for (int c = 0; c < width; ++c) {
      const double x = weight * v_scale * cached_number(w.storage, values[n] + c * size);
      row.out[static_cast<std::size_t>(c)] += x, magnitude[static_cast<std::size_t>(c)] += std::abs(x);
    }
  }
  const double weights = (f16 ? 0x1p-11 : 0x1p-8) + 2 * worst + 0x1p-18;  // each is rounded, each has the error of two scores
  const double last = out_dtype == DType::f32 ? 0x1p-22 : out_dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (int c = 0; c < width; ++c) {
    const auto n = static_cast<std::size_t>(c);
    // A weight of f16 below 2^-14 of the greatest has an error of 2^-25 of it.
    row.out_bound[n] = magnitude[n] * weights + std::abs(row.out[n]) * last + 1e-6 +
                       (f16 ? 0x1p-25 * static_cast<double>(scores.size()) * 448 * v_scale : 0);
  }
  return row;
}

}  // namespace phasor::test
