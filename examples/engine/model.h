/* SPDX-License-Identifier: Apache-2.0
 * The half of a decoder that knows no positions: weights of a small Llama in float32, and the products and norms that use them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* (out, in), row by row: y = W x. */
typedef struct engine_matrix {
  const float* values;
  int64_t out;
  int64_t in;
} engine_matrix;

typedef struct engine_layer {
  const float* input_norm;
  engine_matrix q, k, v, o;
  const float* feed_forward_norm;
  engine_matrix gate, up, down;
} engine_layer;

typedef struct engine_model {
  int64_t layers, hidden, heads, kv_heads, head_dim, vocabulary;
  float epsilon; /* of the norms */
  engine_matrix embedding, head;
  const float* norm;
  const engine_layer* layer; /* `layers` of them */
} engine_model;

/* From a folder with config.json and model.safetensors (float32). NULL, and why in `message`, where it cannot be read. */
const engine_model* engine_load(const char* folder, char* message, size_t room);
void engine_unload(const engine_model* model);

/* Rows of x (rows, in) to rows of y (rows, out). */
void engine_linear(float* y, const float* x, int64_t rows, engine_matrix matrix);
/* y = weight * x / sqrt(mean(x^2) + epsilon), row by row. */
void engine_rms_norm(float* y, const float* x, int64_t rows, const engine_model* model, const float* weight);
/* x += down(silu(gate h) * up h), h the norm of x. Scratch is the callee's. */
void engine_feed_forward(float* x, int64_t rows, const engine_model* model, const engine_layer* layer);
/* The likeliest token after a row of hidden values. */
int64_t engine_next_token(const float* hidden, const engine_model* model);

#ifdef __cplusplus
}
#endif
