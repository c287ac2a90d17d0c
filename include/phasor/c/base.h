/* SPDX-License-Identifier: Apache-2.0
 * What every function of the C API takes: status and error, tensors, positions, execution, texts; and what the library can do here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) || !defined(__GNUC__)
#define PHASOR_API
#else
#define PHASOR_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status and error ---- */

typedef int32_t phasor_status;
enum {
  PHASOR_OK = 0,
  PHASOR_INVALID = 1,       /* the arguments contradict each other or the contract */
  PHASOR_UNSUPPORTED = 2,   /* meaningful, but this build or machine cannot do it */
  PHASOR_OUT_OF_MEMORY = 3, /* nothing was written */
  PHASOR_NOT_FOUND = 4,     /* a file or folder that is not there */
  PHASOR_TOO_SMALL = 5      /* the caller's buffer: its `length` or `count` says what is needed; nothing was written */
};

/* Where, what is, what is wanted: "apply_rotary: q has head_dim 96, the spec wants 128". Filled by a call that fails. */
typedef struct phasor_error {
  phasor_status status;
  char message[508]; /* UTF-8, ends in a zero; what is longer is cut */
} phasor_error;

/* ---- Tensors: those of DLPack. With dlpack.h included before, the same types. ---- */

#if defined(DLPACK_VERSION) || defined(DLPACK_MAJOR_VERSION)
typedef DLDevice phasor_device;
typedef DLDataType phasor_dtype;
typedef DLTensor phasor_tensor;
#else
typedef struct phasor_device {
  int32_t device_type; /* kDLCPU 1, kDLCUDA 2; 0: CPU */
  int32_t device_id;
} phasor_device;
typedef struct phasor_dtype {
  uint8_t code; /* kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} phasor_dtype;
/* Axes (B, T, H, D): four of them, or (T, H, D), (T, D), (D), where the others are 1. Of positions (axes, B, T), (B, T) or (T). Other
 * orders in memory are strides. The last axis must be contiguous unless a function says otherwise. */
typedef struct phasor_tensor {
  void* data;
  phasor_device device;
  int32_t ndim;
  phasor_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} phasor_tensor;
#endif

typedef int32_t phasor_element;
enum { PHASOR_F32 = 0, PHASOR_F64 = 1, PHASOR_F16 = 2, PHASOR_BF16 = 3, PHASOR_I32 = 4, PHASOR_I64 = 5, PHASOR_U8 = 6, PHASOR_BOOL = 7 };
/* A contiguous tensor of the CPU; `shape` must live as long as it. An element that is not listed gives a dtype of 0 bits. */
PHASOR_API phasor_tensor phasor_tensor_of(void* data, phasor_element element, int64_t* shape, int32_t ndim);

/* The tensor holds int32, int64 or float64; NULL: offset, offset + 1, ... */
typedef struct phasor_positions {
  const phasor_tensor* tensor;
  int64_t offset;
} phasor_positions;

/* ---- Execution ---- */

/* Calls task(task_context, i) once for every i from 0 to tasks - 1, in any order and on any threads, and returns when all are done.
 * Results do not depend on it. A task takes up to 192 KiB of its thread's stack. */
typedef struct phasor_runner {
  void (*run)(void* context, int64_t tasks, void (*task)(void* task_context, int64_t index), void* task_context); /* NULL: OpenMP */
  void* context;
} phasor_runner;
/* The memory says which device a call runs on. A GPU takes the stream (cudaStream_t, NULL: the default one), the CPU the runner. */
typedef struct phasor_execution {
  phasor_runner runner;
  void* stream;
} phasor_execution;

/* ---- Results of a length that the caller does not know: a first call with capacity 0 gives PHASOR_TOO_SMALL and the length. ---- */

typedef struct phasor_text {
  char* data;
  size_t capacity; /* bytes, the zero at the end among them */
  size_t length;   /* of the text without its zero: written by the call */
} phasor_text;
typedef struct phasor_bytes {
  uint8_t* data;
  size_t capacity;
  size_t length;
} phasor_bytes;
typedef struct phasor_doubles {
  double* data;
  size_t capacity;
  size_t count;
} phasor_doubles;

/* ---- The library ---- */

/* "0.1.0". */
PHASOR_API const char* phasor_version(void);
/* Names of the targets that this machine can run, the best first, each on a line: "avx512\navx2\nscalar". All give the same bits. */
PHASOR_API phasor_status phasor_targets(phasor_text* names, phasor_error* error);
PHASOR_API phasor_status phasor_active_target(phasor_text* name, phasor_error* error);
/* In every thread from now on; "" goes back to the default. */
PHASOR_API phasor_status phasor_force_target(const char* name, phasor_error* error);
/* 1 where this build has kernels for memory of the DLPack device type, else 0. */
PHASOR_API int32_t phasor_has_backend(int32_t device_type);

#ifdef __cplusplus
}
#endif
