// SPDX-License-Identifier: Apache-2.0
// A call of attention as the general kernels see it: the job's numbers, what the launch has laid out in the workspace, and terms of few
// kinds. Tables of rows are one kind, whoever says which row a query and a key read.
#pragma once

#include "job/attention/job.hpp"
#include "math/philox.hpp"

namespace phasor::cuda::attention {

using std::int64_t;

/// Queries and keys of a tile, and channels that a block holds of each at a time.
constexpr int kTile = 32;
constexpr int kChunk = 64;
/// Rows of a table that a block multiplies with a tile at a time: those of consecutive positions fit.
constexpr int kWindow = 2 * kTile;
constexpr int kThreads = 128;
/// More than any scheme has; a kernel's parameter holds them.
constexpr int kMostTerms = 12;

// ---- Terms ----

/// What a row of a table is for: its product with queries or keys, added to a score; itself added to a value; a number added to a score.
enum class RowUse : std::uint8_t { query, key, value, number };
/// Which row: by distance, by segments, by coordinates of grids.
enum class RowKind : std::uint8_t { distance, segment, axis_y, axis_x, grid };

struct TableWork {
  RowUse use = RowUse::query;
  RowKind kind = RowKind::distance;
  ConstTensorView table = {};     // (B or 1, rows, H or 1, width)
  ConstTensorView features = {};  // what meets rows: q, k, or given
  ConstTensorView shift = {};     // added to features; data null: none
  double scale = 1;
  job::RowMap map = {};                  // by distance
  int64_t last_threshold = 0;            // of its buckets: the list itself is on the device
  job::PositionSource segments[2] = {};  // of queries, of keys
  Window query_grid = {};                // axes, and the window of a grid
  Window key_grid = {};
  bool class_token = false;
  bool own_features = false;  // not q or k
  TensorView gradient = {};
  TensorView features_gradient = {};
  TensorView shift_gradient = {};
};

struct BiasWork {
  plan::BiasSource bias;
  int64_t first_head = 0;
  int64_t parameter_count = 0;
  ConstTensorView gate = {};
  ConstTensorView parameters = {};  // those of the call; data null: the source's own
  double* numbers = nullptr;        // the same, in float64
  void* diagonal = nullptr;         // (heads, distances) of arithmetic; null: by the formula, at every score
  int64_t first_distance = 0;
  int64_t distances = 0;
  int64_t last_threshold = 0;  // of T5's buckets: the list itself is on the device
  TensorView gate_gradient = {};
  TensorView gradient = {};
};

/// Where a backward adds up what a term learns by: places among a block's own sums, or among those of the call; -1: not wanted.
struct TermSums {
  int64_t slot = -1;      // of a table or of distances: a block's
  int64_t shift = -1;     // a block's
  int64_t memory = -1;    // a block's: what perceptrons work in
  int64_t numbers = 0;    // of float64, that a perceptron works in at a score
  int64_t features = -1;  // the call's: (parts, B, T, heads, width) of features, (B, Tq, H, 1) of a gate, (parts, ...) of a dense bias
};

enum class TermUse : std::uint8_t { table, bias, dense, cope };
struct TermWork {
  TermUse use = TermUse::table;
  std::uint8_t cope_number = 0;  // of several CoPEs: each counts for itself
  TableWork table;
  BiasWork bias;
  ConstTensorView dense = {};
  TensorView dense_gradient = {};
  CopeTerm cope = {};
  TermSums sums = {};
};

// ---- The call ----

struct Content {
  ConstTensorView q;
  ConstTensorView k;
};
/// Which content a score takes: the only one, near or far of a window, by chunks.
enum class ContentRule : std::uint8_t { one, window, chunk };

/// xPos: ln(zeta) / scale_base of a channel by its pair.
struct DecayWork {
  bool present = false;
  double gamma = 0;
  double scale_base = 1;
  int64_t pairs = 0;
  int64_t offset = 0;
  bool interleaved = false;
};

struct DropoutWork {
  bool present = false;
  math::u32 threshold = 0;
  double factor = 1;
  math::u64 seed = 0;
  math::u64 offset = 0;
  math::u32 first_head = 0;
  math::u32 first_sequence = 0;
};

/// Sums of a softmax over a part of the keys, before they are made one.
struct PartialWork {
  int64_t splits = 1;
  void* out = nullptr;  // (splits, rows, Dv) of arithmetic, rows (B, Tq, H)
  void* max = nullptr;  // (splits, rows)
  void* sum = nullptr;
};

/// Keys of every sequence that one launch of a backward has: those from number `first` of the sequence on.
struct KeyChunk {
  int64_t first = 0;
  int64_t keys = 0;  // the last chunk may have less
};

/// What a backward reads and adds up. All sums are one piece of memory of arithmetic, cleared first; places in it, -1: not wanted.
struct BackwardWork {
  int64_t groups = 1;      // of sequences
  int64_t key_groups = 1;  // of key heads
  int64_t parts = 1;       // of the tiles of queries of a sequence
  KeyChunk chunk = {};     // of the launch; all are as long
  AttentionSaved saved = {};
  bool rounds_out_gradient = false;  // to the dtype of queries: as products of tensor cores take it
  void* sums = nullptr;
  int64_t delta = -1;           // (B, Tq, H)
  int64_t q[3] = {-1, -1, -1};  // of each content, (B, Tq, H, D); contents may share
  int64_t k[3] = {-1, -1, -1};  // (key_rows, Hk, D), see backward/place.hpp
  int64_t q_raw = -1;           // by terms that take q as given
  int64_t k_raw = -1;
  int64_t v = -1;             // (key_rows, Hk, Dv)
  bool wants_scores = false;  // some gradient goes through the scores
  int64_t slots = -1;         // (blocks, slot_size): what blocks have for themselves
  int64_t slot_size = 0;
  int64_t content_shift = -1;  // in a slot: (heads or 1, D)
  int64_t carry = -1;          // in a slot: sums of each CoPE at each tile of keys
};

struct AttentionWork {
  job::AttentionShape shape;
  int64_t sequences = 0;
  job::VisibilityJob see;
  bool has_positions[2] = {false, false};  // of queries, of keys
  job::PositionSource positions[2] = {};
  int content_count = 1;
  Content contents[3] = {};
  ContentRule rule = ContentRule::one;
  int64_t rule_size = 0;
  DecayWork decay;
  ConstTensorView q;  // as given
  ConstTensorView k;
  ConstTensorView v;
  ConstTensorView content_shift;
  ConstTensorView sinks;
  double scale = 1;
  double softcap = 0;
  bool certified_skip = false;  // tiles may be left out that cannot matter
  DropoutWork dropout;
  int term_count = 0;
  TermWork terms[kMostTerms];
  AttentionOutputs outputs = {};
  PartialWork partial;
  BackwardWork backward;
};

PHASOR_HD inline bool is_varlen(const AttentionWork& work) { return work.see.query_starts.size > 0; }

}  // namespace phasor::cuda::attention
