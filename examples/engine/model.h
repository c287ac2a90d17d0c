/* SPDX-License-Identifier: Apache-2.0
 * The half of a decoder that knows no positions: weights of a small Llama in float32 on a device, and what is made with them. */
#pragma once

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct engine_layer {
  engine_norm input_norm;
  engine_matrix q, k, v, o;
  engine_norm feed_forward_norm;
  engine_matrix gate, up, down;
} engine_layer;

typedef struct engine_model {
  const engine_device* device;
  int64_t layers, hidden, heads, kv_heads, head_dim, vocabulary;
  engine_matrix embedding, head;
  engine_norm norm;
  const engine_layer* layer; /* `layers` of them, in the host's memory */
} engine_model;

/* From a folder with config.json and model.safetensors (float32). NULL, and why in `message`, where it cannot be read. */
const engine_model* engine_load(const char* folder, const engine_device* device, char* message, size_t room);
void engine_unload(const engine_model* model);

/* x (rows, hidden): what the tokens, in the host's memory, are embedded as. */
void engine_embed(float* x, const int64_t* tokens, int64_t rows, const engine_model* model);
/* x += down(silu(gate h) * up h), h the norm of x. Scratch is the callee's. */
void engine_feed_forward(float* x, int64_t rows, const engine_model* model, const engine_layer* layer);
/* How likely each token is after a row of hidden values: `vocabulary` of them, in the host's memory. */
void engine_logits(float* logits, const float* hidden, const engine_model* model);
/* The likeliest token by those. */
int64_t engine_likeliest(const float* logits, const engine_model* model);

#ifdef __cplusplus
}
#endif
