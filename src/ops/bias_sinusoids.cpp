// SPDX-License-Identifier: Apache-2.0
// Transformer-XL's rows of sines and cosines by distance: the rows of a rotary encoding, in the order of a sinusoid.
#include <algorithm>
#include <vector>

#include "job/bias.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "job/positions/positions.hpp"
#include "phasor/bias.hpp"
#include "phasor/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

constexpr const char* where = "fill_xl_sinusoids";

std::vector<std::int64_t> read(const Positions& distances, const Extents& shape, std::int64_t clamp) {
  std::vector<std::int64_t> list;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t t = 0; t < shape[1]; ++t) {
      const std::int64_t r = job::integer_at(distances, b, t);
      list.push_back(clamp == 0 ? r : std::clamp(r, -clamp, clamp));
    }
  }
  return list;
}

/// T is the element, V what its rows are made in: float32 for f32, else float64, so that there is one rounding.
template <class T, class V>
Status write(const TensorView& out, XlOrder order, const Rotary& rotary, const std::vector<std::int64_t>& distances) {
  const std::int64_t pairs = out.shape[3] / 2;
  const Extents shape = {1, static_cast<std::int64_t>(distances.size()), 1, pairs};
  std::vector<V> cosines(distances.size() * static_cast<std::size_t>(pairs));
  std::vector<V> sines(cosines.size());
  if (Status s = rotary.cos_sin(positions(distances.data(), shape[1]), view(cosines.data(), shape), view(sines.data(), shape)); !s)
    return s;
  const bool halves = order == XlOrder::halves;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < shape[1]; ++row) {
    T* to = static_cast<T*>(out.data) + row / out.shape[1] * out.strides[0] + row % out.shape[1] * out.strides[1];
    for (std::int64_t i = 0; i < pairs; ++i, ++next) {
      to[halves ? i : 2 * i] = job::element_of<T>(sines[next]);
      to[halves ? pairs + i : 2 * i + 1] = job::element_of<T>(cosines[next]);
    }
  }
  return {};
}

}  // namespace

Status fill_xl_sinusoids(const TensorView& out, const XlSinusoids& spec, const Positions& distances) {
  return spec::without_exceptions([&] {
    const Result<Rotary> rotary = Rotary::make({.head_dim = spec.width, .base = spec.base});
    if (!rotary)
      return job::error(where, "the sinusoids are those of a rotary encoding of width {}; {}", spec.width, rotary.status().message());
    if (Status s = job::check_xl_sinusoids(where, out, spec, distances); !s || job::is_empty(out)) return s;
    if (Status s = job::check_on_cpu(where, "out", out.device); !s) return s;
    const std::vector<std::int64_t> list = read(distances, out.shape, spec.clamp);
    Status status;
    job::with_element(out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using V = std::conditional_t<std::is_same_v<T, float>, float, double>;
      status = write<T, V>(out, spec.order, *rotary, list);
    });
    return status;
  });
}

}  // namespace phasor
