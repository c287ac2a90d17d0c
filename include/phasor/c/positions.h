/* SPDX-License-Identifier: Apache-2.0
 * Positions made from what engines and models have at hand, their maps, and the temperatures of queries. phasor/position_builders.hpp,
 * position_maps.hpp and positions.hpp have the contracts. */
#pragma once

#include "phasor/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Query temperature ---- */

typedef int32_t phasor_temperature_kind;
enum {
  PHASOR_TEMPERATURE_LOG_N = 0,      /* max(1, ln(p + 1) / ln(length)) */
  PHASOR_TEMPERATURE_FLOORED_LOG = 1 /* 1 + scale ln(1 + floor((p + shift) / length)) */
};
/* Factor on a query by its position p. */
typedef struct phasor_query_temperature {
  size_t size; /* sizeof(phasor_query_temperature) */
  phasor_temperature_kind kind;
  int32_t reserved;
  double scale;
  int64_t length;
  int64_t shift;
} phasor_query_temperature;
/* The float64 nearest to the factor at a position; NaN where the formula has no value. (query_temperature of C++.) */
PHASOR_API phasor_status phasor_query_temperature_at(const phasor_query_temperature* temperature, int64_t position, double* factor,
                                                     phasor_error* error);
/* One factor per position, (B, T) in order, each the float32 nearest. */
PHASOR_API phasor_status phasor_fill_temperature(float* out, size_t count, const phasor_query_temperature* temperature,
                                                 phasor_positions positions, phasor_error* error);

/* The same to (B, T, 1, 1) of float32, as query_factors of phasor_prepare_attention are, on a GPU too: there a position that has no factor
 * gets 1. */
PHASOR_API phasor_status phasor_fill_query_factors(const phasor_tensor* out, const phasor_query_temperature* temperature,
                                                   phasor_positions positions, const phasor_execution* execution, phasor_error* error);

/* ---- Builders: out is (axes, B, T), (B, T) or (T) of int32, int64 or float64. Lists are contiguous tensors of integers, NULL: not given.
 * All input is checked before anything is written; those with an execution (NULL: the defaults) run on a GPU too. ---- */

/* offset + t. */
PHASOR_API phasor_status phasor_fill_from_offset(const phasor_tensor* out, int64_t offset, const phasor_execution* execution,
                                                 phasor_error* error);
/* offsets[b] + t. */
PHASOR_API phasor_status phasor_fill_from_offsets(const phasor_tensor* out, const phasor_tensor* offsets, const phasor_execution* execution,
                                                  phasor_error* error);

/* Sequences one after the other: s is the tokens cu_seqlens[s] to cu_seqlens[s + 1] and begins at position offsets[s]. */
typedef struct phasor_ragged {
  const phasor_tensor* cu_seqlens;
  const phasor_tensor* offsets; /* NULL: 0 */
} phasor_ragged;
PHASOR_API phasor_status phasor_fill_from_cu_seqlens(const phasor_tensor* out, const phasor_ragged* ragged,
                                                     const phasor_execution* execution, phasor_error* error);

/* The n-th token that is not masked (from 0) is at first + n, a masked one at `masked`. */
typedef struct phasor_mask_rule {
  int64_t first;
  int64_t masked;
} phasor_mask_rule;
/* RoBERTa and models like it: from padding_idx + 1 on, masked ones at padding_idx. */
PHASOR_API phasor_mask_rule phasor_roberta_rule(int64_t padding_idx);
typedef struct phasor_attention_mask {
  size_t size;                 /* sizeof(phasor_attention_mask) */
  const phasor_tensor* values; /* (B, past + T), 1 or 0; or token ids, when `pad` is given */
  int64_t past;                /* columns before the first token that is asked for */
  int64_t pad;                 /* the token id that is masked */
  int32_t has_pad;
  int32_t reserved;
} phasor_attention_mask;
/* rule NULL: 0, 0. */
PHASOR_API phasor_status phasor_fill_from_mask(const phasor_tensor* out, const phasor_attention_mask* mask, const phasor_mask_rule* rule,
                                               phasor_error* error);

/* A paged cache: page i of sequence s is block blocks[s * pages + i] (negative: none). */
typedef struct phasor_page_table {
  const phasor_tensor* blocks;  /* (sequences, pages) */
  const phasor_tensor* lengths; /* tokens of each sequence */
  int64_t page_size;
} phasor_page_table;
/* out (blocks of the cache, page_size): the position of the token in every place, `empty` (-1 as a rule) where there is none. */
PHASOR_API phasor_status phasor_fill_from_pages(const phasor_tensor* out, const phasor_page_table* table, int64_t empty,
                                                phasor_error* error);
/* Slots block * page_size + place of the tokens at integer positions `at`: row b is sequence b, or, given cu_seqlens, one row holds all. */
typedef struct phasor_slots_call {
  size_t size; /* sizeof(phasor_slots_call) */
  const phasor_tensor* out;
  phasor_page_table table; /* lengths may be NULL */
  phasor_positions at;
  const phasor_tensor* cu_seqlens;
  phasor_execution execution;
} phasor_slots_call;
PHASOR_API phasor_status phasor_fill_slots(const phasor_slots_call* call, phasor_error* error);

/* Speculative drafts: token t is a child of token parents[t] of its row, which is before it, or (-1) of what is accepted so far. */
typedef struct phasor_draft_tree {
  const phasor_tensor* parents; /* (T), the same in every row, or (B, T) */
  const phasor_tensor* offsets; /* (B) or one: the position of a token without parent; NULL: 0 */
} phasor_draft_tree;
PHASOR_API phasor_status phasor_fill_from_tree(const phasor_tensor* out, const phasor_draft_tree* tree, phasor_error* error);

/* ---- Images and videos ---- */

/* Patches; also a row of image_grid_thw. */
typedef struct phasor_image_grid {
  int64_t frames; /* 0: 1 */
  int64_t rows;
  int64_t columns;
} phasor_image_grid;
typedef int32_t phasor_grid_axis;
enum { PHASOR_GRID_FRAME = 0, PHASOR_GRID_ROW = 1, PHASOR_GRID_COLUMN = 2 };
typedef int32_t phasor_grid_unit;
enum { PHASOR_GRID_INDEX = 0, PHASOR_GRID_CENTRE = 1 /* (2 i + 1 - n) / n of n, for float64 */ };
typedef struct phasor_grid_layout {
  size_t size;                  /* sizeof(phasor_grid_layout) */
  const phasor_grid_axis* axes; /* what each axis of out counts; NULL: row, column */
  size_t axis_count;
  int64_t merge;   /* tokens go by squares of merge x merge; 0: 1 */
  int64_t first;   /* index of the first row, column and frame */
  int64_t prefix;  /* tokens before each grid */
  int64_t suffix;  /* and behind it */
  int64_t outside; /* position of those */
  phasor_grid_unit unit;
  int32_t reserved;
} phasor_grid_layout;
/* Grids one after the other in one batch row. layout NULL: the defaults. */
PHASOR_API phasor_status phasor_fill_from_grids(const phasor_tensor* out, const phasor_image_grid* grids, size_t count,
                                                const phasor_grid_layout* layout, phasor_error* error);
/* Only the patches of given indices, (B, T). */
PHASOR_API phasor_status phasor_fill_from_patches(const phasor_tensor* out, const phasor_tensor* patches, const phasor_image_grid* grid,
                                                  const phasor_grid_layout* layout, phasor_error* error);

typedef int32_t phasor_mrope_model;
enum {
  PHASOR_MROPE_QWEN2_VL = 0,
  PHASOR_MROPE_QWEN2_5_VL = 1,
  PHASOR_MROPE_QWEN3_VL = 2,
  PHASOR_MROPE_GLM4V = 3,
  PHASOR_MROPE_ERNIE4_5_VL = 4,
  PHASOR_MROPE_QWEN2_5_OMNI = 5,
  PHASOR_MROPE_QWEN3_OMNI = 6
};
/* Special token ids, as the model's config names them. Without its flag: the model has none. */
typedef struct phasor_mrope_tokens {
  size_t size; /* sizeof(phasor_mrope_tokens) */
  int64_t image;
  int64_t video;
  int64_t audio;
  int64_t vision_start;
  int64_t audio_start;
  int64_t video_start;
  int64_t video_end;
  int32_t has_image;
  int32_t has_video;
  int32_t has_audio;
  int32_t has_vision_start;
  int32_t has_audio_start;
  int32_t has_video_start;
  int32_t has_video_end;
  int32_t reserved;
} phasor_mrope_tokens;
typedef struct phasor_mrope_input {
  size_t size; /* sizeof(phasor_mrope_input) */
  phasor_mrope_model model;
  int32_t use_audio_in_video;          /* Omni */
  const phasor_tensor* input_ids;      /* (B, T) */
  const phasor_tensor* token_types;    /* (B, T), 0 text, 1 image, 2 video; instead of input_ids, not for Omni */
  const phasor_tensor* attention_mask; /* (B, T); NULL: nothing is masked */
  const phasor_image_grid* images;     /* in patches, before merging */
  size_t image_count;
  const phasor_image_grid* videos;
  size_t video_count;
  const float* seconds_per_grid; /* one per video (Qwen2.5-VL, Omni); NULL: 1 */
  size_t seconds_per_grid_count;
  const phasor_tensor* audio_lengths; /* audio_seqlens (Omni) */
  const phasor_mrope_tokens* tokens;  /* NULL: none */
  int64_t merge;                      /* spatial_merge_size; 0: 2 */
  int64_t temporal_merge;             /* of Ernie's videos; 0: 2 */
  double tokens_per_second;           /* Qwen2.5-VL; 0: 2 */
  double position_id_per_seconds;     /* Omni; 0: 25 */
  double seconds_per_chunk;           /* Qwen2.5-Omni; 0: 2 */
  int64_t audio_window;               /* Qwen3-Omni's n_window; 0: 50 */
} phasor_mrope_input;
/* out (3, B, T): frame, row and column ids as of transformers. deltas: B of them, or NULL: what to add to a token's index to go on. */
PHASOR_API phasor_status phasor_fill_mrope(const phasor_tensor* out, double* deltas, size_t delta_count, const phasor_mrope_input* input,
                                           phasor_error* error);

/* ---- Shards, random positions ---- */

typedef int32_t phasor_shard_order;
enum { PHASOR_SHARD_ZIGZAG = 0, PHASOR_SHARD_CONTIGUOUS = 1, PHASOR_SHARD_STRIPED = 2, PHASOR_SHARD_PERMUTED = 3 };
/* How a sequence is dealt out to `ranks`. */
typedef struct phasor_shard {
  size_t size; /* sizeof(phasor_shard) */
  int64_t rank;
  int64_t ranks; /* 0: 1 */
  phasor_shard_order order;
  int32_t reserved;
  int64_t tokens;                   /* of one whole sequence from position 0 on; or */
  phasor_ragged whole;              /* sequences, each dealt out by itself (not `permuted`) */
  const phasor_tensor* permutation; /* of the tokens, for PHASOR_SHARD_PERMUTED */
} phasor_shard;
/* Positions of the tokens that one rank holds; T = tokens / ranks, B = 1. */
PHASOR_API phasor_status phasor_fill_shard(const phasor_tensor* out, const phasor_shard* shard, phasor_error* error);
/* Which tokens of the whole those are. */
PHASOR_API phasor_status phasor_fill_shard_tokens(const phasor_tensor* out, const phasor_shard* shard, phasor_error* error);

typedef struct phasor_random_positions {
  size_t size; /* sizeof(phasor_random_positions) */
  int64_t length;
  uint64_t seed;
} phasor_random_positions;
/* T of the positions 0 to length - 1, drawn without replacement and sorted, for each row anew; the same on every machine. */
PHASOR_API phasor_status phasor_fill_random(const phasor_tensor* out, const phasor_random_positions* random, phasor_error* error);

/* ---- Maps: methods that show attention other distances than the true ones; fields of other kinds stay 0. ---- */

typedef int32_t phasor_position_map_kind;
enum {
  PHASOR_MAP_RE_ROPE = 0,       /* window */
  PHASOR_MAP_LEAKY_RE_ROPE = 1, /* window, factor */
  PHASOR_MAP_SELF_EXTEND = 2,   /* window, group */
  PHASOR_MAP_DUAL_CHUNK = 3     /* chunk, local, critical */
};
typedef struct phasor_position_map {
  size_t size; /* sizeof(phasor_position_map) */
  phasor_position_map_kind kind;
  int32_t critical;
  int64_t window;
  double factor; /* 0: 1 */
  int64_t group; /* 0: 1 */
  int64_t chunk;
  int64_t local;
} phasor_position_map;
/* The distance that a query sees a key at; NaN where there is none. */
PHASOR_API phasor_status phasor_mapped_distance(const phasor_position_map* map, int64_t query, int64_t key, double* distance,
                                                phasor_error* error);
/* 3 for dual chunks, else 2: near and far. */
PHASOR_API phasor_status phasor_passes_of(const phasor_position_map* map, int32_t* passes, phasor_error* error);
/* Keys first to end - 1. */
typedef struct phasor_key_range {
  int64_t first;
  int64_t end;
} phasor_key_range;
/* The keys at which a query takes its scores from `pass`. */
PHASOR_API phasor_status phasor_keys_of_pass(const phasor_position_map* map, int32_t pass, int64_t query, phasor_key_range* keys,
                                             phasor_error* error);
typedef int32_t phasor_map_side;
enum { PHASOR_MAP_QUERIES = 0, PHASOR_MAP_KEYS = 1 };
typedef struct phasor_map_pass {
  int32_t pass;
  phasor_map_side side;
} phasor_map_pass;
/* Where to rotate the tokens at positions `at` (integers of the shape of out, which may be them). Leaky ReRoPE's far pass wants float64. */
PHASOR_API phasor_status phasor_fill_pass_positions(const phasor_tensor* out, const phasor_position_map* map, phasor_map_pass pass,
                                                    phasor_positions at, phasor_error* error);

#ifdef __cplusplus
}
#endif
