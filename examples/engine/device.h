/* SPDX-License-Identifier: Apache-2.0
 * Where an engine computes. A table of functions for each kind of device; all else of the engine is the same for them. */
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

/* weight * x / sqrt(mean(x^2) + epsilon). */
typedef struct engine_norm {
  const float* weight;
  int64_t width;
  float epsilon;
} engine_norm;

/* Pointers to numbers are the device's memory. What is asked for is done in order, and may not be done yet when a function returns.
 * A device that fails says why and ends the program. */
typedef struct engine_device {
  const char* name;
  int32_t is_cuda;
  void* stream; /* cudaStream_t */

  void* (*take)(size_t bytes); /* any values are in it */
  void (*give_back)(void* memory);
  void (*copy)(void* to, const void* from, size_t bytes); /* between the device and the host, any way; the host's may be reused after it */
  void (*wait)(void);

  void (*linear)(float* y, const float* x, int64_t rows, engine_matrix matrix); /* x (rows, in), y (rows, out) */
  void (*norm)(float* y, const float* x, int64_t rows, engine_norm norm);
  void (*gate)(float* x, const float* up, int64_t count); /* x = silu(x) * up */
  void (*add)(float* x, const float* y, int64_t count);   /* x += y */
} engine_device;

/* By name, "cpu" or "cuda"; NULL: there is none, and `message` says why. */
const engine_device* engine_device_of(const char* name, char* message, size_t room);
/* For engine_device_of. NULL: a build without CUDA, or a machine without a GPU. */
const engine_device* engine_cuda(char* message, size_t room);

#ifdef __cplusplus
}
#endif
