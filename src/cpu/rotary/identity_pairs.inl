// SPDX-License-Identifier: Apache-2.0
// Rows in which some pairs are left bit for bit among others that turn: registers turn all of them, and those pairs are put back.

/// More of them than this, and heads go pair by pair.
constexpr std::int64_t kMostKept = 256;

/// The pairs of a row to be left alone; -1 when there are too many.
template <class T>
std::int64_t find_identities(const Row<T>& row, std::int64_t pairs, std::int64_t* found) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (!math::is_identity(row.cos[0][i], row.sin[0][i]) || !math::is_identity(row.cos[1][i], row.sin[1][i])) continue;
    if (count == kMostKept) return -1;
    found[count++] = i;
  }
  return count;
}

/// One token whose row has identities inside: without this, two ladders with pair 0 in common (all have it) would go pair by pair.
template <DType dtype, Pairing read, Pairing write, class T>
void rotate_around(Row<T> row, Heads heads, std::int64_t pairs) {
  using Storage = typename Element<dtype>::Storage;
  std::int64_t found[kMostKept];
  // In place across pairings a pair's channels are elsewhere before and after; past the caches nothing is written twice.
  const std::int64_t count = read != write || heads.stream ? -1 : find_identities(row, pairs, found);
  if (count < 0) return rotate_heads<dtype, read, write>(row, heads, pairs);
  row.identity_inside = false;
  const std::int64_t heads_count = heads.count;
  heads.count = 1;
  for (std::int64_t h = 0; h < heads_count; ++h, heads.in += heads.in_stride, heads.out += heads.out_stride) {
    Storage kept[2 * kMostKept];
    for (std::int64_t k = 0; k < count; ++k) {
      const math::Pair<std::int64_t> at = channels<read>(heads.first + found[k], heads.half);
      kept[2 * k] = reinterpret_cast<const Storage*>(heads.in)[at.x];
      kept[2 * k + 1] = reinterpret_cast<const Storage*>(heads.in)[at.y];
    }
    rotate_heads<dtype, read, write>(row, heads, pairs);
    for (std::int64_t k = 0; k < count; ++k) {
      const math::Pair<std::int64_t> at = channels<write>(heads.first + found[k], heads.half);
      reinterpret_cast<Storage*>(heads.out)[at.x] = kept[2 * k];
      reinterpret_cast<Storage*>(heads.out)[at.y] = kept[2 * k + 1];
    }
  }
}
