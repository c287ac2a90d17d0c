// SPDX-License-Identifier: Apache-2.0
// The parts of attention in bfloat16 on Intel's matrix unit (AMX): packing, scores, softmax of a tile of scores, and the sum of values.
//
// A block is kBlockRows query rows; it walks over tiles of kTileKeys keys. For each tile: scores, whatever the scheme adds to them or
// masks, softmax, rescale if softmax says so, add_values. Nothing here allocates. Subnormal bfloat16 numbers count as zeros. All but
// `available` need a Session on the calling thread, and pointers to packed data, scores and outputs aligned to 64 bytes.
#pragma once

#include <cstdint>

#include "phasor/tensor_view.hpp"

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define PHASOR_AMX 1
#else
#define PHASOR_AMX 0
#endif

namespace phasor::cpu::amx {

/// Whether the functions below exist: guard calls with `if constexpr`, then ask available().
inline constexpr bool kCompiled = PHASOR_AMX != 0;

inline constexpr std::int64_t kBlockRows = 32;  // query rows of a block
inline constexpr std::int64_t kTileKeys = 64;   // keys of a tile
inline constexpr std::int64_t kLanes = 16;      // float32 of a register
inline constexpr std::int64_t kDepthStep = 32;  // channels are padded with zeros to a multiple of this

constexpr std::int64_t padded(std::int64_t channels) { return (channels + kDepthStep - 1) / kDepthStep * kDepthStep; }

/// bfloat16 numbers of a packed block of queries, tile of keys, or tile of values, of so many channels.
constexpr std::int64_t packed_queries_size(std::int64_t channels) { return kBlockRows * padded(channels); }
constexpr std::int64_t packed_keys_size(std::int64_t channels) { return kTileKeys * padded(channels); }

/// Whether processor and system have AMX with bfloat16. The first call asks the kernel to allow it to this process.
#if PHASOR_AMX
bool available();
#else
constexpr bool available() { return false; }
#endif

/// Probabilities as one bfloat16 (relative error at most 2^-8), or as the sum of two (2^-15), which costs a second product.
enum class Parts { one, two };

/// The matrix unit set up for this thread, from construction to destruction, on one thread. Not to be nested. Until its end subnormal
/// float32 results are flushed to zero: a probability below 2^-126 would otherwise cost 300 cycles.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::uint32_t control_;  // of the floating-point unit, as it was
};

/// Rows of a tensor: count rows of so many channels, `stride` numbers apart.
struct Rows {
  const BFloat16* data;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t channels;
};

/// To (kBlockRows, padded channels), zeros below and beside.
void pack_queries(const Rows& from, BFloat16* to);

/// To pairs of channels for `scores`; keys beyond `count` become zeros, so their scores are 0 and the caller's to mask.
void pack_keys(const Rows& from, BFloat16* to);

/// To pairs of keys for `add_values`, in the order in which `softmax` leaves probabilities; values beyond `count` become zeros.
void pack_values(const Rows& from, BFloat16* to);

/// A product nobody reads. The matrix unit goes to sleep 400 ns after its last product and that costs 300 ns: whoever works longer than
/// this between two of these functions calls it on the way. softmax does.
void keep_awake();

/// scores (kBlockRows, kTileKeys) = queries keys^T, summed in float32. `depth` is the padded number of channels.
void scores(const BFloat16* queries, const BFloat16* keys, std::int64_t depth, float* to);

/// What softmax keeps of a block from tile to tile.
struct alignas(64) BlockState {
  float shift[kBlockRows];          // near the row's largest score so far, scaled, in octaves; -infinity before any that is not masked
  float factor[kBlockRows];         // what rescale multiplies by
  float sums[kBlockRows * kLanes];  // of probabilities, a lane each
  bool rising[2];                   // half the rows each: the last tile raised a shift, so look for maxima first
};

void reset(BlockState& state);

/// A tile (kBlockRows, kTileKeys) of scores, -infinity where masked, to probabilities 2^(scale log2(e) score - shift) in place: bfloat16,
/// in the order of `add_values`. They are at most about 2^8, since shift follows the maximum lazily, and are added to the state's sums.
/// `scale` is above 0. Gives the rows (bit r for row r) whose earlier outputs must be multiplied by state.factor before this tile is added.
std::uint32_t softmax(float* tile, float scale, Parts parts, BlockState& state);

/// A block's output: (kBlockRows, padded channels), rows `stride` numbers apart.
struct Output {
  float* data;
  std::int64_t stride;
  std::int64_t channels;  // padded
};

/// Multiplies the rows of `out` that softmax named.
void rescale(const Output& out, const BlockState& state, std::uint32_t rows);

enum class Fill { overwrite, add };

/// out (+)= probabilities values, summed in float32; `tile` is what softmax left.
void add_values(const float* tile, Parts parts, const BFloat16* values, const Output& out, Fill fill);

/// The sums of a block's probabilities, one per row: what its outputs are to be divided by. Log-sum-exp is log(2) shift + log(sum).
void row_sums(const BlockState& state, float* sums);

}  // namespace phasor::cpu::amx
