// SPDX-License-Identifier: Apache-2.0
// Which rows of which tensors a change of pairing moves, by their names and shapes.
#include "ops/permute.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "math/pairing.hpp"
#include "spec/format.hpp"

namespace phasor::ops {
namespace {

using spec::fail;

enum class Role : std::uint8_t { none, query, key, fused, latent_key, query_norm, key_norm, refused };

struct Known {
  std::string_view part;
  Role role;
};

constexpr std::array<Known, 20> known_parts = {{{"q_proj", Role::query},
                                                {"wq", Role::query},
                                                {"q_b_proj", Role::query},
                                                {"k_proj", Role::key},
                                                {"wk", Role::key},
                                                {"qkv_proj", Role::fused},
                                                {"kv_a_proj_with_mqa", Role::latent_key},
                                                {"q_norm", Role::query_norm},
                                                {"q_layernorm", Role::query_norm},
                                                {"query_layernorm", Role::query_norm},
                                                {"k_norm", Role::key_norm},
                                                {"k_layernorm", Role::key_norm},
                                                {"key_layernorm", Role::key_norm},
                                                {"query_key_value", Role::refused},
                                                {"c_attn", Role::refused},
                                                {"Wqkv", Role::refused},
                                                {"wqkv", Role::refused},
                                                {"qkv", Role::refused},
                                                {"W_pack", Role::refused},
                                                {"in_proj_qkv", Role::refused}}};

struct Named {
  Role role = Role::none;
  std::string_view suffix;  // after the part: "weight", "lora_B.weight"
};

/// The last known part between the dots of a name, and what follows it.
Named role_of(std::string_view name) {
  Named found;
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const auto match = std::find_if(known_parts.begin(), known_parts.end(), [&](const Known& known) { return known.part == part; });
    if (match != known_parts.end()) found = {match->role, end < name.size() ? name.substr(end + 1) : std::string_view()};
    begin = end + 1;
  }
  return found;
}

std::int64_t kv_heads(const PermuteOptions& options) { return options.kv_heads == 0 ? options.heads : options.kv_heads; }

std::int64_t elements_of(const spec::SafetensorsTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::uint64_t axis : tensor.shape) count *= axis;  // checked by the reader, in bits
  return static_cast<std::int64_t>(count);
}

/// The heads that are permuted, and all heads that the rows make up (v's too).
struct Heads {
  std::int64_t permuted;
  std::int64_t all;
};

Heads heads_of(Role role, const PermuteOptions& options) {
  switch (role) {
    case Role::query:
    case Role::query_norm:
      return {options.heads, options.heads};
    case Role::fused:
      return {options.heads + kv_heads(options), options.heads + 2 * kv_heads(options)};
    default:
      return {kv_heads(options), kv_heads(options)};
  }
}

PermutedRows rotary_part(std::int64_t heads, std::int64_t head_dim, const PermuteOptions& options) {
  PermutedRows rows{.heads = heads, .head_dim = head_dim, .rotary_offset = options.rotary_offset};
  rows.rotary_width = options.rotary_width == 0 ? head_dim - options.rotary_offset : options.rotary_width;
  return rows;
}

void check_part(std::string_view name, const PermutedRows& rows) {
  if (rows.rotary_width > 0 && rows.rotary_width % 2 == 0 && rows.rotary_offset <= rows.head_dim - rows.rotary_width) return;
  fail(spec::format("permute: {} has heads of {} rows, wanted an even rotary width that fits ({} at {})", name, rows.head_dim,
                    rows.rotary_width, rows.rotary_offset));
}

bool is_packed(std::string_view suffix) {
  return suffix == "qweight" || suffix == "qzeros" || suffix == "g_idx" || suffix == "scales_and_zp";
}

/// A norm over each head, or over all heads at once.
PermutedRows norm_rows(std::string_view name, std::int64_t count, const Heads& heads, const PermuteOptions& options) {
  if (options.head_dim > 0 && count == options.head_dim * heads.all && heads.all > 1)
    return rotary_part(heads.all, options.head_dim, options);
  if (options.head_dim > 0 && count != options.head_dim) {
    fail(spec::format("permute: {} has {} entries, wanted head_dim, {}, or that for each head", name, count, options.head_dim));
  }
  return rotary_part(1, count, options);
}

/// Scales of blocks of rows need no change where a block holds whole heads, and cannot follow where it holds part of one.
bool covers_whole_heads(std::int64_t rows, const Heads& heads, std::int64_t head_dim) {
  return rows > 0 && heads.all * head_dim % rows == 0 && heads.all * head_dim / rows % head_dim == 0;
}

/// Rows of a projection, of its bias, or of scales that come with it.
std::optional<PermutedRows> projection_rows(std::string_view name, std::string_view suffix, std::int64_t rows, const Heads& heads,
                                            const PermuteOptions& options) {
  const bool weight = suffix == "weight" || suffix == "bias";
  if (weight && rows % heads.all != 0) fail(spec::format("permute: {} has {} rows, wanted a multiple of {} heads", name, rows, heads.all));
  if (options.head_dim == 0 && !weight) {
    fail(spec::format("permute: {} is neither weight nor bias: head_dim is 0, wanted the channels of a head", name));
  }
  const std::int64_t head_dim = options.head_dim == 0 ? rows / heads.all : options.head_dim;
  if (rows == heads.all * head_dim) return rotary_part(heads.permuted, head_dim, options);
  if (!weight && covers_whole_heads(rows, heads, head_dim)) return std::nullopt;
  fail(spec::format("permute: {} has {} rows, wanted {} heads of {}", name, rows, heads.all, head_dim));
}

}  // namespace

void check_shape(const PermuteOptions& options) {
  const auto wrong = [](std::string_view field, std::int64_t value, std::string_view wanted) {
    fail(spec::format("permute: {} is {}, wanted {}", field, value, wanted));
  };
  constexpr std::int64_t most = 1 << 20;
  if (options.heads < 1 || options.heads > most) wrong("heads", options.heads, "1 to 2^20");
  if (options.kv_heads < 0 || options.kv_heads > most) wrong("kv_heads", options.kv_heads, "0 to 2^20");
  if (options.head_dim < 0 || options.head_dim > most) wrong("head_dim", options.head_dim, "0 to 2^20");
  if (options.rotary_width < 0 || options.rotary_width % 2 != 0 || options.rotary_width > most) {
    wrong("rotary_width", options.rotary_width, "an even number, 0 to 2^20");
  }
  if (options.rotary_offset < 0 || options.rotary_offset > most) wrong("rotary_offset", options.rotary_offset, "0 to 2^20");
  if (options.from > Pairing::interleaved || options.to > Pairing::interleaved) fail("permute: from and to, wanted half or interleaved");
}

std::optional<PermutedRows> permuted_rows(std::string_view name, const spec::SafetensorsTensor& tensor, const PermuteOptions& options) {
  if (!name.starts_with(options.prefix)) return std::nullopt;
  const Named named = role_of(name);
  if (named.role == Role::none || named.suffix.starts_with("lora_A") || elements_of(tensor) <= 1) return std::nullopt;
  if (named.role == Role::refused) fail(spec::format("permute: {} fuses q, k and v in an order of its model's own: not supported", name));
  if (is_packed(named.suffix)) fail(spec::format("permute: {} packs its rows into integers: not supported", name));
  const auto count = static_cast<std::int64_t>(tensor.shape[0]);
  const Heads heads = heads_of(named.role, options);
  std::optional<PermutedRows> rows;
  if (named.role == Role::latent_key) {
    // One shared head: the latent channels, then the rotary ones.
    if (options.rotary_width == 0) fail(spec::format("permute: {}: rotary_width is 0, wanted the width of the rotary part", name));
    rows = PermutedRows{.heads = 1, .head_dim = count, .rotary_width = options.rotary_width, .rotary_offset = count - options.rotary_width};
    if (rows->rotary_offset < 0) fail(spec::format("permute: {} has {} rows, wanted at least rotary_width", name, count));
  } else if (named.role == Role::query_norm || named.role == Role::key_norm) {
    rows = norm_rows(name, count, heads, options);
  } else {
    rows = projection_rows(name, named.suffix, count, heads, options);
  }
  if (!rows) return std::nullopt;
  check_part(name, *rows);
  const auto row_bits = static_cast<std::int64_t>(tensor.end - tensor.begin) * 8 / count;
  if (row_bits % 8 != 0) fail(spec::format("permute: {} has rows of {} bits, wanted whole bytes", name, row_bits));
  rows->row_bytes = row_bits / 8;
  return rows;
}

void permute_rows(std::span<const std::byte> in, std::span<std::byte> out, const PermutedRows& rows, const PermuteOptions& options) {
  std::copy(in.begin(), in.end(), out.begin());
  const std::int64_t pairs = rows.rotary_width / 2;
  for (std::int64_t head = 0; head < rows.heads; ++head) {
    const std::int64_t first = head * rows.head_dim + rows.rotary_offset;
    for (std::int64_t i = 0; i < rows.rotary_width; ++i) {
      const std::int64_t source = math::permuted_from(i, pairs, options.from == Pairing::interleaved, options.to == Pairing::interleaved);
      std::copy_n(in.begin() + (first + source) * rows.row_bytes, rows.row_bytes, out.begin() + (first + i) * rows.row_bytes);
    }
  }
}

}  // namespace phasor::ops
