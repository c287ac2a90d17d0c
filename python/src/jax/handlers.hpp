// SPDX-License-Identifier: Apache-2.0
// What the handlers do, one function per operation; handlers.cpp makes XLA's handlers of them. Tensors have four own axes, positions
// (B or 1, axes, T), a spec is its text (docs/spec-format.md).
#pragma once

#include "jax/call.hpp"

namespace phasor::python::jax {

/// positions, q[, k] -> q rotated[, k rotated]; spec, direction (0 forward, 1 inverse, 2 transpose).
void rotate(Call& call);
/// positions -> cos, sin; spec.
void fill_rows(Call& call);
/// positions -> encoding; spec.
void fill_sinusoid(Call& call);
/// x, positions -> x + encoding; spec.
void add_sinusoid(Call& call);
/// q positions, k positions[, parameters] -> bias (B or 1, H, Tq, Tk); spec.
void fill_bias(Call& call);
/// q positions, k positions, parameters, gradient of the bias -> gradient of the parameters; spec.
void bias_gradient(Call& call);
/// q, k, v and the tensors that `slots` names -> out, lse; scheme.
void attend(Call& call);
/// q, k, v, out, lse, gradient of out, gradient of lse, then as `attend` -> the gradients that `wanted` names; scheme.
void attend_backward(Call& call);

}  // namespace phasor::python::jax
