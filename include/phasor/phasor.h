/* SPDX-License-Identifier: Apache-2.0
 * Phasor in C: exact position encodings for Transformers. Each function is the one of the same name in C++ (docs/c.md has the rules).
 *
 * - A function returns a phasor_status and fills the caller's phasor_error (NULL: not wanted). Nothing is printed, no state is global.
 * - Structs begin with their size: `phasor_rotary_spec spec = {.size = sizeof spec};`. What is zero is the default; where zero is a value
 * of its own a flag `has_...` stands beside it. A program runs with newer libraries without being compiled again.
 * - Tensors are DLPack's, on a CPU or a GPU. NULL: not given. Their memory, workspaces and texts are the caller's.
 * - What a `phasor_..._make` gives is immutable, may be used by any number of threads and is freed by `phasor_..._free` (NULL is ignored).
 */
#pragma once

#include "phasor/c/additive.h"
#include "phasor/c/analysis.h"
#include "phasor/c/attention.h"
#include "phasor/c/base.h"
#include "phasor/c/bias.h"
#include "phasor/c/cache.h"
#include "phasor/c/model.h"
#include "phasor/c/positions.h"
#include "phasor/c/prepare.h"
#include "phasor/c/rotary.h"
#include "phasor/c/scheme.h"
#include "phasor/c/specs.h"
