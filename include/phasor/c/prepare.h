/* SPDX-License-Identifier: Apache-2.0
 * From what a projection gives to what attention reads, in one pass: norm of heads, rotation, temperature, quantisation, and the write to a
 * cache of any layout; and its gradients. phasor/prepare.hpp has the contracts. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/cache.h"
#include "phasor/c/rotary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What happens to a head on its way ---- */

typedef int32_t phasor_norm_kind;
enum { PHASOR_NORM_NONE = 0, PHASOR_NORM_RMS = 1, PHASOR_NORM_L2 = 2 };
typedef int32_t phasor_norm_over;
enum { PHASOR_NORM_OVER_HEAD = 0, PHASOR_NORM_OVER_ALL_HEADS = 1 };
typedef int32_t phasor_norm_weight;
enum { PHASOR_WEIGHT_PLAIN = 0, PHASOR_WEIGHT_ONE_PLUS = 1 };
typedef int32_t phasor_norm_cast;
enum { PHASOR_CAST_AFTER_WEIGHT = 0, PHASOR_CAST_BEFORE_WEIGHT = 1 };

/* A norm of heads, in float32; without a kind everything stays 0. */
typedef struct phasor_head_norm {
  size_t size; /* sizeof(phasor_head_norm) */
  phasor_norm_kind kind;
  phasor_norm_over over;
  phasor_norm_weight weight_as; /* w, or 1 + w */
  phasor_norm_cast cast;
  float epsilon;
  int32_t has_epsilon;         /* 0: 1e-6 */
  const phasor_tensor* weight; /* (width), or one per head (1, 1, heads, width); NULL: none */
  int64_t width;               /* the first channels of a head, which alone are normed; 0: all */
} phasor_head_norm;

typedef int32_t phasor_prepare_order;
enum { PHASOR_PREPARE_NORM_FIRST = 0, PHASOR_PREPARE_ROTATION_FIRST = 1 };
typedef int32_t phasor_prepare_between;
enum { PHASOR_BETWEEN_ROUNDED = 0, PHASOR_BETWEEN_KEPT = 1 }; /* to the tensor's dtype after each step, or float32 until the last */

typedef struct phasor_prepare_spec {
  size_t size;                    /* sizeof(phasor_prepare_spec) */
  const phasor_head_norm* q_norm; /* NULL: none */
  const phasor_head_norm* k_norm;
  const phasor_head_norm* v_norm;
  phasor_prepare_order order;
  phasor_prepare_between between;
  float query_scale;           /* factor on q, last */
  int32_t has_query_scale;     /* 0: 1 */
  int64_t q_rotary_offset;     /* first rotated channel of q where it is not k's (MLA) */
  int32_t has_q_rotary_offset; /* 0: as k's */
  int32_t reserved;
} phasor_prepare_spec;

/* ---- Inputs ---- */

/* Heads of a projection: (B, T, H, D) each, any strides, f32, f16 or bf16, all of one dtype. NULL: not there. */
typedef struct phasor_prepare_inputs {
  size_t size; /* sizeof(phasor_prepare_inputs) */
  const phasor_tensor* q;
  const phasor_tensor* k;
  const phasor_tensor* v;
  const phasor_tensor* query_factors; /* (B, T, 1, 1), f32: factors on q by token, times query_scale; NULL: 1 */
  phasor_execution execution;
} phasor_prepare_inputs;

/* Heads of q, k and v one after the other in the channels C of a packed tensor, from channel `first` on: (q_heads + 2 k_heads) head_dim
 * channels. It is (B, T, 1, C), (B, T, C), (T, C) or (C), its last axis contiguous. */
typedef struct phasor_packed_heads {
  size_t size; /* sizeof(phasor_packed_heads) */
  int64_t q_heads;
  int64_t k_heads;
  int64_t head_dim;
  int64_t first;
} phasor_packed_heads;
/* Do not copy or move it: shape and strides of its tensors point into the struct. */
typedef struct phasor_unpacked_qkv {
  size_t size; /* sizeof(phasor_unpacked_qkv) */
  phasor_tensor q;
  phasor_tensor k;
  phasor_tensor v;
  int64_t shapes[3][4];
  int64_t strides[3][4];
} phasor_unpacked_qkv;
/* q, k and v as tensors of the packed one's memory; what else the row has is left alone. */
PHASOR_API phasor_status phasor_unpack_qkv(const phasor_tensor* packed, const phasor_packed_heads* heads, phasor_unpacked_qkv* qkv,
                                           phasor_error* error);

/* q and k are rotated by one rotary, or by the one that spec_of names for each batch row or each token; or, instead, by the tables of the
 * caller, as by phasor_apply_rotary: then positions are not looked at. */
typedef struct phasor_prepare_rotation {
  size_t size;             /* sizeof(phasor_prepare_rotation) */
  phasor_rotary_list list; /* count 0: not rotated, unless by tables */
  phasor_positions positions;
  const phasor_tensor* cos; /* NULL: no tables */
  const phasor_tensor* sin;
  const phasor_table_layout* layout; /* NULL: the defaults */
} phasor_prepare_rotation;

/* ---- Use ---- */

/* q goes token by token (a phasor_tensor_cache of its own input: in place), k and v to their places in caches. */
typedef struct phasor_prepare_outputs {
  size_t size; /* sizeof(phasor_prepare_outputs) */
  phasor_cache_parts q;
  phasor_cache_parts k;
  phasor_cache_parts v;
  const phasor_token_places* places; /* NULL: in order */
} phasor_prepare_outputs;

/* Rotation NULL: not rotated; spec NULL: no norms, no scale. Nothing is written when it fails. */
PHASOR_API phasor_status phasor_prepare_attention(const phasor_prepare_inputs* inputs, const phasor_prepare_rotation* rotation,
                                                  const phasor_prepare_outputs* outputs, const phasor_prepare_spec* spec,
                                                  phasor_error* error);

/* ---- Gradients ---- */

/* Of q, k or v: the gradient by what was made of it, and where those by it and by its norm's weight go. */
typedef struct phasor_prepare_gradient {
  const phasor_tensor* by_output; /* shape and dtype of the input */
  const phasor_tensor* by_input;  /* the same, written */
  const phasor_tensor* by_weight; /* f32, shape of the weight, written; NULL: not wanted */
} phasor_prepare_gradient;
typedef struct phasor_prepare_gradients {
  size_t size; /* sizeof(phasor_prepare_gradients) */
  phasor_prepare_gradient q;
  phasor_prepare_gradient k;
  phasor_prepare_gradient v;
  const phasor_tensor* workspace;        /* float64, as many as the workspace function says; NULL where that is 0 */
  const phasor_tensor* by_query_factors; /* f32, shape of query_factors, written; NULL: not wanted */
} phasor_prepare_gradients;

/* Numbers of float64 that phasor_prepare_attention_backward works in. */
PHASOR_API phasor_status phasor_prepare_attention_backward_workspace(const phasor_prepare_inputs* inputs,
                                                                     const phasor_prepare_gradients* gradients,
                                                                     const phasor_prepare_spec* spec, int64_t* numbers,
                                                                     phasor_error* error);
PHASOR_API phasor_status phasor_prepare_attention_backward(const phasor_prepare_inputs* inputs, const phasor_prepare_rotation* rotation,
                                                           const phasor_prepare_gradients* gradients, const phasor_prepare_spec* spec,
                                                           phasor_error* error);

#ifdef __cplusplus
}
#endif
