// SPDX-License-Identifier: Apache-2.0
// CacheView: where keys and values (or queries made ready) are stored, in whatever layout, dtype and scaling an engine has.
#pragma once

#include <array>
#include <cstdint>

#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

/// What numbers are stored as. Of 8 bits: OCP's float8, saturating, NaN kept; int8 saturates to -128 ... 127 and has 0 for a NaN.
enum class Storage : std::uint8_t { f32, f16, bf16, f8_e4m3, f8_e5m2, i8 };

constexpr std::int64_t bytes_of(Storage storage) {
  return storage > Storage::i8 ? 0 : storage == Storage::f32 ? 4 : storage <= Storage::bf16 ? 2 : 1;
}
constexpr const char* name_of(Storage storage) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "i8"};
  return storage <= Storage::i8 ? kNames[static_cast<int>(storage)] : "unknown";
}

/// What an axis of a cache counts. Channel c of a head lies at (outer, inner) = (c / x, c % x), x the extent of `inner`.
enum class CacheAxis : std::uint8_t { layer, block, token, head, outer, inner };
inline constexpr int kCacheAxes = 6;
using CacheExtents = std::array<std::int64_t, kCacheAxes>;  // by CacheAxis

/// Scales of what is stored in 8 bits (any storage may have them).
struct CacheScales {
  enum class Kind : std::uint8_t {
    none,
    given,  // `value`, or where `data` is not null data[head * strides[2]], float32: the tensor's (stride 0) or one per head
    made,   // for every token, head and group of channels: their largest magnitude over the largest of the storage; written to `data`
  };
  /// What happens to a value: x / scale or x * scale. Made scales are what decoding multiplies by: multiply is x * (1 / scale) there.
  enum class Use : std::uint8_t { divide, multiply };
  enum class Encoding : std::uint8_t { f32, ue8m0 };  // of made ones; ue8m0: the next power of two, one byte

  Kind kind = Kind::none;
  Use use = Use::divide;
  Encoding encoding = Encoding::f32;
  float value = 1;
  void* data = nullptr;
  std::array<std::int64_t, 4> strides{};  // block, token, head, group, in elements of the encoding: beside the cache or inside of its rows
  std::int64_t group = 0;                 // channels that share a made scale; 0: all of the view's
  float least = 0x1p-126F;                // made ones are not smaller
};

/// Memory of a cache, by what each axis means: the order in memory is the strides'. In elements of `storage`.
struct CacheView {
  void* data = nullptr;
  Storage storage = Storage::f32;
  CacheExtents shape{};
  CacheExtents strides{};
  std::int64_t layer = 0;          // which one is written
  std::int64_t first_channel = 0;  // of the heads: they are stored from this one on, outer * inner of them
  CacheScales scales{};
  Device device{};
};

/// What a head becomes: one view of all its channels, or two of some each (a latent part in fp8 and a rotated one in bf16). None: count 0.
struct CacheParts {
  std::array<CacheView, 2> parts{};
  int count = 0;

  CacheParts() = default;
  CacheParts(const CacheView& whole) : parts{whole, CacheView()}, count(1) {}  // NOLINT(google-explicit-constructor)
  CacheParts(const CacheView& first, const CacheView& second) : parts{first, second}, count(2) {}
};

// ---- Layouts of engines ----

/// Views of keys and values in one allocation.
struct CachePair {
  CacheView k;
  CacheView v;
};
/// Blocks (pages) of `block` tokens with `heads` heads of `head_dim` channels.
struct CacheShape {
  std::int64_t blocks = 0;
  std::int64_t block = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

/// A (B, T, H, D) tensor: a block for each batch row.
CacheView tensor_cache(const TensorView& tensor);
/// (blocks, block, H, D), contiguous; also a contiguous (B, T, H, D) cache.
CacheView contiguous_cache(void* data, Storage storage, const CacheShape& shape);
/// vLLM's older layout: keys (blocks, H, D / x, block, x), values (blocks, H, D, block), each an allocation of its own. x is 16 bytes.
CacheView vllm_key_cache(void* data, Storage storage, const CacheShape& shape);
CacheView vllm_value_cache(void* data, Storage storage, const CacheShape& shape);
/// vLLM's flash layout: (2, blocks, block, H, D).
CachePair vllm_flash_cache(void* data, Storage storage, const CacheShape& shape);
/// FlashInfer: (pages, 2, page, H, D) or, with heads first, (pages, 2, H, page, D).
enum class HeadOrder : std::uint8_t { nhd, hnd };
CachePair flashinfer_cache(void* data, Storage storage, const CacheShape& shape, HeadOrder order);
/// SGLang's slots of tokens: (slots, H, D); a block is one token.
CacheView sglang_cache(void* data, Storage storage, std::int64_t slots, std::int64_t heads, std::int64_t head_dim);

/// MLA, one head. (blocks, block, latent + rope) of one dtype is a contiguous_cache of one head; these mix dtypes.
/// 656 bytes a token: 512 e4m3, four float32 scales of 128 channels each, 64 bf16.
CacheParts mla_656_cache(void* data, std::int64_t blocks, std::int64_t block);
/// 584 bytes a token: in each block first for every token 448 e4m3 and 64 bf16, then for every token seven ue8m0 scales of 64 channels each
/// and a byte that is left alone. `block_bytes` from block to block; 0: 584 for each token.
CacheParts mla_584_cache(void* data, std::int64_t blocks, std::int64_t block, std::int64_t block_bytes = 0);

// ---- Where tokens lie ----

/// Integers of the caller, int32 or int64, on the device of the call.
struct IntegerList {
  const void* data = nullptr;
  PositionType type = PositionType::i64;
  std::int64_t size = 0;
  Device device{};
};
template <class T>
IntegerList integers(const T* data, std::int64_t size) {
  static_assert(position_type_of<T> != PositionType::f64, "phasor: a list of integers");
  return {data, position_type_of<T>, size};
}

/// Which block and which of its tokens a token goes to. On a CPU every place is checked before anything is written; on a GPU a place
/// inside of the cache, and one that no other token has, is the caller's word, unless `on_gpu` says otherwise.
struct TokenPlaces {
  /// checked, for finding mistakes: every place is looked at there, too, and one outside of the cache is an error that names the token,
  /// before anything is written. The call then allocates a few bytes and waits for its stream, so it is refused while the stream is being
  /// captured. That two tokens have one place is found on a CPU alone.
  enum class OnGpu : std::uint8_t { trusted, checked };
  enum class Kind : std::uint8_t {
    in_order,  // token t of batch row b: block b, token starts[b] + t (without starts: t)
    slots,  // block slots[i] / block size, token slots[i] % block size, i = b T + t; negative ones, and tokens beyond the list, are skipped
    pages,  // block indices[indptr[r] + p / page size], token p % page size, of request r = requests[i] at place p = places[i] (FlashInfer)
  };
  Kind kind = Kind::in_order;
  IntegerList starts{};
  IntegerList slots{};
  IntegerList indptr{};  // without it: pages_per_request of `indices` for each request, a page table
  IntegerList indices{};
  IntegerList requests{};  // without it: the batch row
  IntegerList places{};
  std::int64_t pages_per_request = 0;
  OnGpu on_gpu = OnGpu::trusted;
};

}  // namespace phasor
