/* SPDX-License-Identifier: Apache-2.0 */
/* What a library exports so that bench/gpu/peers.py can time it: functions `int NAME(const PeerCall*)`, which put their kernel on the
 * call's stream and return 0 or a CUDA error. peers.py lists the names and what each does. bench/gpu/ours.cu exports Phasor's. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* T tokens, H heads of q and Hk of k and v, D channels, all of them rotated in pairs (i, i + D / 2). Pointers are of the device; one that a
 * function has no use for may be null. Strides in elements, from token to token; heads of a token follow each other. */
typedef struct PeerCall {
  void* q; /* bf16, (T, H, D), read and, unless q_out is the result, rotated in place */
  void* k; /* bf16, (T, Hk, D), likewise */
  void* v; /* bf16, (T, Hk, D), read */
  int64_t q_stride;
  int64_t k_stride;
  int64_t v_stride;
  void* q_out;              /* e4m3, (T, H, D), contiguous */
  void* k_cache;            /* slots: bf16, (slots, Hk, D); pages: e4m3, (pages, 2, page_size, Hk, D), keys first */
  void* v_cache;            /* slots: as k_cache; pages: null, since k_cache holds both */
  const int64_t* positions; /* (T) */
  const float* cos_sin;     /* (largest position + 1, D): D / 2 cosines, then D / 2 sines */
  const void* q_weight;     /* bf16, (D), of the rms norm of each head */
  const void* k_weight;
  const int64_t* slots;    /* (T): where a token goes in a cache of slots */
  const int32_t* indptr;   /* (requests + 1): where a request's pages begin in `indices` */
  const int32_t* indices;  /* (pages) */
  const int32_t* requests; /* (T): of a token */
  const int32_t* places;   /* (T): of a token in its request */
  int64_t tokens;
  int64_t q_heads;
  int64_t k_heads;
  int64_t head_dim;
  int64_t page_size;
  int64_t request_count;
  double base;   /* of the rotation's frequencies, for those who have no use for cos_sin */
  float epsilon; /* of the norm */
  float q_scale; /* factors before q_out and e4m3 caches */
  float kv_scale;
  void* stream; /* cudaStream_t */
} PeerCall;

#ifdef __cplusplus
}
#endif
