// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper/backward/parts.hpp"

#include <algorithm>

#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::cuda::hopper {
namespace {

/// What strips may take.
constexpr std::int64_t kMostBandBytes = std::int64_t{2} << 30;

bool fits(const Backward& b) {
  const KeyTiles t = key_tiles_of(b);
  if (4 * strip_numbers(t, clips_of(b, t)) > kMostBandBytes) return false;
  for (int side = 0; side < 2; ++side) {
    if (b.tables[side].gradient != nullptr && 4 * band_part_numbers(b, t, side) > kMostPartBytes) return false;
  }
  return true;
}
/// Of the first part and the last one, which may have less: fewer heads are dealt to more blocks.
bool all_fit(const Backward& b, const Parts& parts) { return fits(part_of(b, parts, 0)) && fits(part_of(b, parts, parts.count(b) - 1)); }

/// Some of an axis; all of one that has a single number of them, which serves all.
template <class View>
View some_of(View v, std::size_t axis, std::int64_t first, std::int64_t count) {
  if (v.data == nullptr || v.shape[axis] == 1) return v;
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  v.data = static_cast<Byte*>(v.data) + first * v.strides[axis] * bytes_of(v.dtype);
  v.shape[axis] = count;
  return v;
}

struct Some {
  std::int64_t first;
  std::int64_t count;
};
Some some_at(std::int64_t number, std::int64_t each, std::int64_t all) { return {number * each, std::min(each, all - number * each)}; }

void take_axis(Backward& b, std::size_t axis, const Some& queries, const Some& keys) {
  Forward& f = b.forward;
  for (ConstTensorView* const v : {&f.q, &b.out, &b.out_gradient}) *v = some_of(*v, axis, queries.first, queries.count);
  for (ConstTensorView* const v : {&f.k, &f.v}) *v = some_of(*v, axis, keys.first, keys.count);
  f.out = some_of(f.out, axis, queries.first, queries.count);
  b.q = some_of(b.q, axis, queries.first, queries.count);
  b.k = some_of(b.k, axis, keys.first, keys.count);
  b.v = some_of(b.v, axis, keys.first, keys.count);
  b.lse += queries.first * b.lse_strides[axis];
  if (b.lse_gradient != nullptr) b.lse_gradient += queries.first * b.lse_gradient_strides[axis];
}
void take_heads(DistanceTable& table, const Some& heads) {
  if (table.rows.data == nullptr) return;
  if (table.gradient_pitch == 0) table.gradient_pitch = table.rows.shape[2] * table.rows.shape[3];
  if (table.rows.shape[2] == 1) return;
  if (table.gradient != nullptr) table.gradient += heads.first * table.rows.shape[3];
  table.rows = some_of(table.rows, 2, heads.first, heads.count);
}

void take_heads(QueryShift& shift, const Some& heads) {
  if (shift.vector.data == nullptr || shift.vector.shape[2] == 1) return;
  if (shift.gradient != nullptr) shift.gradient += heads.first * shift.vector.shape[3];
  shift.vector = some_of(shift.vector, 2, heads.first, heads.count);
}

}  // namespace

Parts parts_for(const Backward& b) {
  const std::int64_t rows = b.forward.q.shape[0], key_heads = b.forward.k.shape[2];
  Parts parts = {key_heads, rows};
  if (!has_tables(b) || all_fit(b, parts)) return parts;
  const auto cut = [&](std::int64_t Parts::* of, std::int64_t all) {
    parts.*of = 1;
    if (!all_fit(b, parts)) return false;
    for (std::int64_t count = 2; count < all; ++count) {
      parts.*of = (all + count - 1) / count;
      if (all_fit(b, parts)) return true;
    }
    parts.*of = 1;
    return true;
  };
  if (cut(&Parts::batch, rows)) return parts;
  return cut(&Parts::key_heads, key_heads) ? parts : Parts{};
}

/// Of a part, too, which stays one.
Backward part_of(const Backward& b, const Parts& parts, std::int64_t number) {
  const Forward& f = b.forward;
  const std::int64_t heads_of_key = f.q.shape[2] / f.k.shape[2], of_heads = parts.of_heads(b);
  const Some rows = some_at(number / of_heads, parts.batch, f.q.shape[0]);
  const Some key_heads = some_at(number % of_heads, parts.key_heads, f.k.shape[2]);
  const Some heads = {key_heads.first * heads_of_key, key_heads.count * heads_of_key};
  Backward part = b;
  take_axis(part, 0, rows, rows);
  take_axis(part, 2, heads, key_heads);
  // What heads share is written by the first part, what each has by the first one of its heads.
  const auto comes_again = [&](const ConstTensorView& of) { return of.shape[2] == 1 ? number > 0 : rows.first > 0; };
  for (DistanceTable& table : part.tables) {
    table.adds = table.adds || (table.rows.data != nullptr && comes_again(table.rows));
    take_heads(table, heads);
  }
  for (QueryShift& shift : part.shifts) {
    shift.adds = shift.adds || (shift.vector.data != nullptr && comes_again(shift.vector));
    take_heads(shift, heads);
  }
  return part;
}

}  // namespace phasor::cuda::hopper
