/* SPDX-License-Identifier: Apache-2.0
 * Analysis: what tables, words and plots are made of. phasor/analysis.hpp has the contracts. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/rotary.h"
#include "phasor/c/specs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers row by row. A call writes rows and columns; PHASOR_TOO_SMALL where there is no room for their product. */
typedef struct phasor_matrix {
  double* data;
  size_t capacity; /* numbers */
  int64_t rows;
  int64_t columns;
} phasor_matrix;

/* Lists of structs, phasor_..._list: the array is the caller's, item_size is the sizeof of one of its structs, and a call writes `count`;
 * PHASOR_TOO_SMALL where `capacity` is less. */

/* Of a spec of several axes a position here is that of every axis. Heads with directions of their own are unsupported. */

/* ---- Matrices, wavelengths, errors of angles ---- */

/* amplitude * R(position), dense, R x R over the rotated channels: columns in the spec's pairing, rows in the pairing it writes. An error
 * above a width of 4096. */
PHASOR_API phasor_status phasor_rotation_matrix(const phasor_rotary* rotary, int64_t position, phasor_matrix* matrix, phasor_error* error);
/* Between query and key: amplitude^2 R(key - query), so that score = q^T M k. Per-channel frequencies are an error. */
PHASOR_API phasor_status phasor_relative_matrix(const phasor_rotary* rotary, int64_t query_position, int64_t key_position,
                                                phasor_matrix* matrix, phasor_error* error);
/* Positions in a full turn of each pair; infinite for a pair that never turns. One for each of phasor_rotary_frequencies. */
PHASOR_API phasor_status phasor_wavelengths(const phasor_rotary* rotary, phasor_doubles* wavelengths, phasor_error* error);

/* Largest error of cos and sin (amplitude included) over the pairs at one position. */
typedef struct phasor_angle_error_result {
  size_t size;    /* sizeof(phasor_angle_error_result) */
  double exact;   /* this library's float32 values */
  double float32; /* float32(position) * float32(frequency), as the peers compute angles, with perfect cos and sin after it */
} phasor_angle_error_result;
PHASOR_API phasor_status phasor_angle_error(const phasor_rotary* rotary, int64_t position, phasor_angle_error_result* result,
                                            phasor_error* error);

/* The same for the float32 tables of each numerics profile. */
typedef struct phasor_profile_error {
  int64_t position;
  double exact;
  double hf;
  double vllm;
  double ggml;
  int32_t has_hf; /* 0: the profile's peer does not have the spec's scaling */
  int32_t has_vllm;
  int32_t has_ggml;
  int32_t reserved;
} phasor_profile_error;
typedef struct phasor_profile_error_list {
  phasor_profile_error* data;
  size_t item_size;
  size_t capacity;
  size_t count;
} phasor_profile_error_list;
/* One item per position. The numerics of `spec` are not looked at. */
PHASOR_API phasor_status phasor_profile_errors(const phasor_rotary_spec* spec, const int64_t* positions, size_t position_count,
                                               phasor_profile_error_list* errors, phasor_error* error);

/* Errors of one profile for tensors of one dtype at one position. */
typedef struct phasor_precision_error {
  int64_t position;
  phasor_numerics numerics;
  phasor_element dtype;
  double cos_sin; /* largest over the pairs, of the tables that the profile uses for the dtype */
  double score;   /* q at position + distance with k at position, both rotated and stored in the dtype, against S(distance) */
} phasor_precision_error;
typedef struct phasor_precision_error_list {
  phasor_precision_error* data;
  size_t item_size;
  size_t capacity;
  size_t count;
} phasor_precision_error_list;
/* Position by position, every numerics whose peer has the spec's scaling, in f32, f16 and bf16. */
PHASOR_API phasor_status phasor_precision_report(const phasor_rotary_spec* spec, const int64_t* at, size_t at_count, int64_t distance,
                                                 phasor_precision_error_list* errors, phasor_error* error);

/* Scores of the same q and k at positions from 0 on and from `far_position` on. They depend on the distance alone when a difference is at
 * most `rounding`. */
typedef struct phasor_distance_check_result {
  size_t size;    /* sizeof(phasor_distance_check_result) */
  int64_t scores; /* how many were compared */
  double largest_score;
  double exact_difference;   /* largest change of a score between near and far, rotated by this library */
  double float32_difference; /* the same, rotated by the float32 angles of the peers */
  double rounding;           /* the most that rounding rotated values to their dtype can change a score */
} phasor_distance_check_result;
/* q (1, T, H, D) and k (1, T, heads that divide H, D) of one dtype. */
PHASOR_API phasor_status phasor_distance_check(const phasor_rotary* rotary, const phasor_tensor* q, const phasor_tensor* k,
                                               int64_t far_position, phasor_distance_check_result* result, phasor_error* error);

/* ---- By distance: q and k of length 1 in each pair, every other channel 0 ---- */

/* S(distance) = amplitude^2 * sum over the pairs of cos(distance * frequency), one for each distance. */
PHASOR_API phasor_status phasor_rotary_decay(const phasor_rotary* rotary, const int64_t* distances, size_t distance_count,
                                             phasor_doubles* sums, phasor_error* error);
/* Of several specs: rows are distances, columns are specs. */
PHASOR_API phasor_status phasor_decay(const phasor_rotary* const* rotaries, size_t rotary_count, const int64_t* distances,
                                      size_t distance_count, phasor_matrix* sums, phasor_error* error);
/* The smallest distance below `length` at which S is below 0; -1 where there is none. */
PHASOR_API phasor_status phasor_first_negative(const phasor_rotary* rotary, int64_t length, int64_t* distance, phasor_error* error);

/* What one key of a causal context gets from the last query. */
typedef struct phasor_distance_weight {
  int64_t distance;
  double sum;    /* S */
  double share;  /* S / P */
  double score;  /* softmax_scale * S / sqrt(head_dim) + bias */
  double weight; /* of the softmax; they sum to 1 */
} phasor_distance_weight;
typedef struct phasor_distance_weight_list {
  phasor_distance_weight* data;
  size_t item_size;
  size_t capacity;
  size_t count;
} phasor_distance_weight_list;
/* Distances 0 to `context` - 1, at most 2^24. `bias` is NULL, or a number for each distance (-infinity: not looked at). */
PHASOR_API phasor_status phasor_distance_weights(const phasor_rotary* rotary, int64_t context, const double* bias, size_t bias_count,
                                                 phasor_distance_weight_list* weights, phasor_error* error);
/* Softmax of scores by distance. -infinity gets weight 0; all of them, NaN or +infinity are errors. */
PHASOR_API phasor_status phasor_softmax_weights(const double* scores, size_t score_count, phasor_doubles* weights, phasor_error* error);

/* ---- Rows: tensors (rows, D) of any dtype, in memory of the CPU ---- */

typedef int32_t phasor_similarity_kind;
enum { PHASOR_COSINE = 0, PHASOR_INNER_PRODUCT = 1 };
/* Every row of `a` with every row of `b`, at most 4096 each. NaN: cosine with zeros. */
PHASOR_API phasor_status phasor_similarity(const phasor_tensor* a, const phasor_tensor* b, phasor_similarity_kind kind,
                                           phasor_matrix* similarities, phasor_error* error);
/* Of a rotary spec at positions, at most 4096: S of each distance, for the cosine divided by S(0). */
PHASOR_API phasor_status phasor_rotary_similarity(const phasor_rotary* rotary, const int64_t* positions, size_t position_count,
                                                  phasor_similarity_kind kind, phasor_matrix* similarities, phasor_error* error);

/* How near to orthogonal two sets of rows are, over all cosines but those of zeros. */
typedef struct phasor_orthogonality_result {
  size_t size; /* sizeof(phasor_orthogonality_result) */
  int64_t cosines;
  double mean;
  double mean_square; /* 1 / D for directions at random */
  double largest;     /* absolute value */
} phasor_orthogonality_result;
PHASOR_API phasor_status phasor_orthogonality(const phasor_tensor* a, const phasor_tensor* b, phasor_orthogonality_result* result,
                                              phasor_error* error);

/* The two positions whose encodings are nearest to each other. */
typedef struct phasor_gap {
  size_t size; /* sizeof(phasor_gap) */
  double gap;  /* Euclidean distance, 0 where two are the same */
  int64_t first;
  int64_t second;
} phasor_gap;
/* Of 2 to 2^13 rows; positions are row numbers. */
PHASOR_API phasor_status phasor_smallest_gap(const phasor_tensor* rows, phasor_gap* gap, phasor_error* error);
/* Of cos and sin of every pair, amplitude included, over positions 0 to `length` - 1, 2 to 2^24 of them; `first` is 0. */
PHASOR_API phasor_status phasor_rotary_smallest_gap(const phasor_rotary* rotary, int64_t length, phasor_gap* gap, phasor_error* error);

/* Tokens x and encodings p, (T, D), T at most 2048; projections (D, E), y = x W, NULL: none. */
typedef struct phasor_score_input {
  size_t size; /* sizeof(phasor_score_input) */
  const phasor_tensor* x;
  const phasor_tensor* p;
  const phasor_tensor* query_weights;
  const phasor_tensor* key_weights;
  double scale;
  int32_t has_scale; /* 0: 1 */
  int32_t reserved;
} phasor_score_input;
/* The score of x + p, (T, T), queries by keys, and its four terms, the query's part named first. NULL: not wanted. */
typedef struct phasor_score_matrices {
  size_t size; /* sizeof(phasor_score_matrices) */
  phasor_matrix* content_content;
  phasor_matrix* content_position;
  phasor_matrix* position_content;
  phasor_matrix* position_position;
  phasor_matrix* score;
} phasor_score_matrices;
PHASOR_API phasor_status phasor_score_terms(const phasor_score_input* input, const phasor_score_matrices* terms, phasor_error* error);

/* ---- Turns and planning ---- */

/* Of one pair. */
typedef struct phasor_pair_turns_result {
  double frequency;
  double wavelength;
  double turns; /* in the length; below 1 the pair makes less than one full turn */
} phasor_pair_turns_result;
typedef struct phasor_pair_turns_list {
  phasor_pair_turns_result* data;
  size_t item_size;
  size_t capacity;
  size_t count;
} phasor_pair_turns_list;
/* One item for each of phasor_rotary_frequencies. */
PHASOR_API phasor_status phasor_pair_turns(const phasor_rotary* rotary, int64_t length, phasor_pair_turns_list* turns, phasor_error* error);

typedef struct phasor_planner_input {
  size_t size;                    /* sizeof(phasor_planner_input) */
  const phasor_rotary_spec* spec; /* as trained, its own scaling included */
  int64_t trained_length;
  int64_t wanted_length;
  const phasor_scaling* const* scalings; /* instead of the spec's own; NULL: every published one with factor wanted / trained */
  size_t scaling_count;
} phasor_planner_input;
/* Texts, scaling and pairs are the plan's and live as long as it. */
typedef struct phasor_planned_scaling {
  size_t size;       /* sizeof(phasor_planned_scaling) */
  const char* name;  /* "as trained", or what the scaling is called: "linear", "ntk", "dynamic", "yarn", ... */
  const char* error; /* why the spec cannot have it; the rest is then empty. NULL: it can */
  const phasor_scaling* scaling;
  double amplitude;
  double softmax_scale;
  int64_t unseen_pairs; /* that leave what was seen before `wanted_length` */
  int64_t unseen_from;  /* where extrapolation begins: the smallest of the pairs */
  int32_t has_unseen_from;
  int32_t reserved;
  size_t pair_count; /* for phasor_planned_scalings_get_pair */
} phasor_planned_scaling;
/* Training has seen the phases of a pair below that of `trained_length`, or all where it turned once or more. */
typedef struct phasor_planned_pair {
  size_t size; /* sizeof(phasor_planned_pair) */
  double frequency;
  double ratio; /* to the frequency as trained; NaN where neither turns */
  double trained_turns;
  double wanted_turns;     /* with this scaling, in either length */
  int64_t unseen_from;     /* first position of a phase not seen */
  int32_t has_unseen_from; /* 0: every phase is */
  int32_t reserved;
} phasor_planned_pair;

/* The first is the spec as trained. Given frequencies and directions are an error: nothing scales them. */
typedef struct phasor_planned_scalings phasor_planned_scalings;
PHASOR_API phasor_status phasor_plan_scalings(const phasor_planner_input* input, phasor_planned_scalings** plan, phasor_error* error);
PHASOR_API void phasor_planned_scalings_free(phasor_planned_scalings* plan);
PHASOR_API size_t phasor_planned_scalings_count(const phasor_planned_scalings* plan);
PHASOR_API phasor_status phasor_planned_scalings_get(const phasor_planned_scalings* plan, size_t index, phasor_planned_scaling* scaling,
                                                     phasor_error* error);
PHASOR_API phasor_status phasor_planned_scalings_get_pair(const phasor_planned_scalings* plan, size_t index, size_t pair_index,
                                                          phasor_planned_pair* pair, phasor_error* error);

/* memcpy in pieces on a runner (NULL: the library's own): what a rotation's speed is shown beside. */
PHASOR_API phasor_status phasor_copy_bytes(void* to, const void* from, size_t bytes, const phasor_runner* runner, phasor_error* error);

#ifdef __cplusplus
}
#endif
