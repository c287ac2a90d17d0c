/* SPDX-License-Identifier: Apache-2.0
 * Attention whose scores know positions: forward, backward, weights, parts made one, and over the pages of a cache. phasor/attention.hpp
 * and cached_attention.hpp have the contracts. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/cache.h"
#include "phasor/c/positions.h"
#include "phasor/c/scheme.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tensors of a call. One that the scheme does not name, and one that it names and is not there, are errors. ---- */

/* Of one term. Any dtype and strides; 1 in the place of B or H is shared. */
typedef struct phasor_term_tensors {
  size_t size;                   /* sizeof(phasor_term_tensors), the same in all of an array */
  const phasor_tensor* table;    /* of tables, segments, grids and CoPE; the rows of heights of a decomposed term; a dense bias */
  const phasor_tensor* second;   /* the rows of widths of a decomposed term */
  const phasor_tensor* features; /* of a table; the gate of a bias */
  const phasor_tensor* shift;
  const phasor_tensor* parameters; /* of a bias: as many as it has */
  phasor_positions query_segments; /* of a segment term alone: integers, (Tq) or (B, Tq) */
  phasor_positions key_segments;
} phasor_term_tensors;

/* What a call brings beside q, k and v. */
typedef struct phasor_attention_tensors {
  size_t size;                      /* sizeof(phasor_attention_tensors) */
  const phasor_term_tensors* terms; /* one per term; NULL: no term has a tensor */
  size_t term_count;
  const phasor_tensor* content_shift;      /* (1, 1, H or 1, D) */
  const phasor_tensor* sinks;              /* (1, 1, H or 1, 1): a logit per head that brings no value */
  const phasor_tensor* prefix;             /* integers, (B) or one per sequence: keys before it are exempt from causality */
  const phasor_tensor* query_starts;       /* integers 0, ..., Tq: sequences one after the other, B = 1 */
  const phasor_tensor* key_starts;         /* 0, ..., Tk */
  const phasor_tensor* key_mask;           /* uint8 or bool, (B, Tk) or (Tk), any strides; 0: no query sees the key */
  const phasor_positions* query_positions; /* (Tq) or (B, Tq), with more axes for a rotary of several; NULL: i + Tk - Tq */
  const phasor_positions* key_positions;   /* NULL: j */
  uint64_t dropout_seed;
  uint64_t dropout_offset;
  int64_t dropout_first_head;     /* of the whole, for the call's head 0 */
  int64_t dropout_first_sequence; /* of the whole, for the call's first */
  phasor_execution execution;
} phasor_attention_tensors;

/* q (B, Tq, H, D), k (B, Tk, Hk, D), v (B, Tk, Hk, Dv), one dtype; Hk divides H. */
typedef struct phasor_attention_inputs {
  size_t size; /* sizeof(phasor_attention_inputs) */
  const phasor_tensor* q;
  const phasor_tensor* k;
  const phasor_tensor* v;
  const phasor_attention_tensors* tensors; /* NULL: none, and the execution's defaults */
} phasor_attention_inputs;

/* Memory that a call works in, on its device; any alignment. `more`, where it is given, is asked for what the memory lacks: a block of so
 * many bytes that stays until the call returns; NULL: there is none. */
typedef struct phasor_workspace {
  void* memory;
  size_t bytes;
  void* (*more)(void* context, int64_t bytes);
  void* context;
} phasor_workspace;

/* ---- Forward ---- */

/* out (B, Tq, H, Dv) of the inputs' dtype, or f32 for 16-bit inputs. lse (B, Tq, H, 1), f32 (f64 for f64 inputs); NULL: not wanted. */
typedef struct phasor_attention_outputs {
  size_t size; /* sizeof(phasor_attention_outputs) */
  const phasor_tensor* out;
  const phasor_tensor* lse;
} phasor_attention_outputs;

/* Bytes that phasor_attention works in. */
PHASOR_API phasor_status phasor_attention_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs, int64_t* bytes,
                                                    phasor_error* error);
/* Nothing is written when it fails. workspace NULL: none. */
PHASOR_API phasor_status phasor_attention(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                          const phasor_attention_outputs* outputs, const phasor_workspace* workspace, phasor_error* error);

/* What a call would do. Tiles are of query_tile x key_tile scores. */
typedef struct phasor_attention_report {
  size_t size; /* sizeof(phasor_attention_report) */
  int64_t query_tile;
  int64_t key_tile;
  int64_t band_tiles;
  int64_t far_tiles;
  int64_t unseen_tiles;
  double operations;       /* multiplications and additions, those of the terms included */
  double plain_operations; /* without terms */
  double bytes;            /* read and written, once each */
  int64_t workspace;
} phasor_attention_report;
/* text: the report as readable text; NULL: not wanted. */
PHASOR_API phasor_status phasor_explain_attention(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                  phasor_attention_report* report, phasor_text* text, phasor_error* error);

/* ---- Backward ---- */

/* What the forward call gave, and the gradients by it. */
typedef struct phasor_attention_saved {
  size_t size; /* sizeof(phasor_attention_saved) */
  const phasor_tensor* out;
  const phasor_tensor* lse;
  const phasor_tensor* out_gradient;
  const phasor_tensor* lse_gradient; /* NULL: zeros */
} phasor_attention_saved;

/* Where gradients of a term's tensors go, shaped as those, f32 or f64, added to what is there; NULL: not computed. */
typedef struct phasor_term_gradient {
  size_t size; /* sizeof(phasor_term_gradient), the same in all of an array */
  const phasor_tensor* table;
  const phasor_tensor* second;
  const phasor_tensor* features;
  const phasor_tensor* shift;
  const phasor_tensor* parameters;
} phasor_term_gradient;

/* q, k, v: of the inputs' dtype, or f32 for 16-bit inputs, and of their shape, written; NULL: not wanted. */
typedef struct phasor_attention_gradients {
  size_t size; /* sizeof(phasor_attention_gradients) */
  const phasor_tensor* q;
  const phasor_tensor* k;
  const phasor_tensor* v;
  const phasor_tensor* content_shift; /* f32 or f64, added to */
  const phasor_tensor* sinks;         /* the same */
  const phasor_term_gradient* terms;  /* as many as terms, or NULL */
  size_t term_count;
  int32_t nondeterministic; /* 1: what is faster on a GPU, where blocks may then add in any order */
  int32_t reserved;
} phasor_attention_gradients;

PHASOR_API phasor_status phasor_attention_backward_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                             const phasor_attention_gradients* gradients, int64_t* bytes,
                                                             phasor_error* error);
PHASOR_API phasor_status phasor_attention_backward(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                   const phasor_attention_saved* saved, const phasor_attention_gradients* gradients,
                                                   const phasor_workspace* workspace, phasor_error* error);

/* ---- Weights of some rows, what a map draws ---- */

/* Each (batch rows, queries, heads, Tk), f32 (f64 for f64 inputs): as many rows as the tensor has, from the ones named on. */
typedef struct phasor_attention_weights_call {
  size_t size;                  /* sizeof(phasor_attention_weights_call) */
  const phasor_tensor* weights; /* after the softmax, before dropout */
  const phasor_tensor* factors; /* what dropout multiplies them by; NULL: not wanted */
  int64_t batch;
  int64_t query;
  int64_t head;
} phasor_attention_weights_call;

/* v of the inputs and tables on the value side are not looked at; v may be NULL. */
PHASOR_API phasor_status phasor_attention_weights_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                            const phasor_attention_weights_call* call, int64_t* bytes, phasor_error* error);
PHASOR_API phasor_status phasor_attention_weights(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                  const phasor_attention_weights_call* call, const phasor_workspace* workspace,
                                                  phasor_error* error);

/* ---- Parts ---- */

/* An output over some of the keys. Sinks belong to one softmax: exactly one part is given them. */
typedef struct phasor_attention_part {
  const phasor_tensor* out;
  const phasor_tensor* lse;
} phasor_attention_part;
/* Outputs over disjoint sets of keys, made one. execution NULL: the defaults. */
PHASOR_API phasor_status phasor_merge_attention(const phasor_attention_part* parts, size_t count, const phasor_attention_outputs* outputs,
                                                const phasor_execution* execution, phasor_error* error);

/* ---- Over a cache ---- */

/* q (B, Tq, H, D), a sequence for each batch row, or (1, all tokens, H, D) and query_starts. Key j of sequence s is token j % page_size of
 * block blocks[s * pages + j / page_size], for j below lengths[s]; without blocks it is token j of block s. */
typedef struct phasor_cached_inputs {
  size_t size; /* sizeof(phasor_cached_inputs) */
  const phasor_tensor* q;
  const phasor_cache_view* k;
  const phasor_cache_view* v;
  phasor_page_table pages;                 /* lengths is needed */
  const phasor_attention_tensors* tensors; /* NULL: none, and the execution's defaults */
} phasor_cached_inputs;

PHASOR_API phasor_status phasor_cached_attention_workspace(const phasor_scheme* scheme, const phasor_cached_inputs* inputs, int64_t* bytes,
                                                           phasor_error* error);
PHASOR_API phasor_status phasor_cached_attention(const phasor_scheme* scheme, const phasor_cached_inputs* inputs,
                                                 const phasor_attention_outputs* outputs, const phasor_workspace* workspace,
                                                 phasor_error* error);

#ifdef __cplusplus
}
#endif
