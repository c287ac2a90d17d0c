// SPDX-License-Identifier: Apache-2.0
// Holding attention of the library against the reference, number by number, and the shapes and masks that cases are made of.
#pragma once

#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {

/// The largest |x - y| / (1 + |y|); infinite where sizes differ or one is no number.
double far_apart(const ref::Values& is, const ref::Values& wanted);

/// What the reference says of a problem as a bridge holds it, and of gradients for random ones that flow in.
struct Wanted {
  ref::Values out_gradient;
  ref::Values lse_gradient;
  ref::Output output;
  ref::Gradients gradients;
  ref::Magnitudes magnitudes;

  Wanted(const ref::Problem& p, DType dtype);
};

/// What decides how far off a number may be (held.cpp derives it). roundings_before: how often summands were rounded to the dtype before.
/// turned: q and k, or q, were rotated inside of the call.
struct HeldAs {
  ref::Shape shape;
  DType dtype;
  int roundings_before = 0;
  bool turned = false;
};
HeldAs held_as(const ref::Problem& problem, DType dtype);
/// Set where weights are rounded to a 16-bit dtype before they meet values, as tensor cores take them: on a GPU.
inline bool weights_are_rounded = false;
/// Set where gradients of rotated queries and keys are rounded to the dtype before they are turned back: by Hopper's kernels, on a GPU.
inline bool gradients_are_turned_narrow = false;
void expect_output(const ref::Output& is, const ref::Output& wanted, const ref::Magnitudes& magnitudes, const HeldAs& as,
                   const std::string& name);
void expect_gradients(ref::Gradients& is, Wanted& wanted, const HeldAs& as, const std::string& name);
/// Forward, then backward.
void expect_wanted(Bridge& bridge, Wanted& wanted, DType dtype, const std::string& name);

/// Runs the problem and compares outputs with the reference's.
void expect_forward(const ref::Problem& problem, DType dtype, const std::string& name, Order order = Order::tokens_first);
/// And all gradients; without a dtype: in float64 and float32.
void expect_as_reference(const ref::Problem& problem, DType dtype, const std::string& name);
void expect_as_reference(const ref::Problem& problem, const std::string& name);

/// Every scheme that the library has, forward and backward, in float64 and float32; few tokens.
void expect_every_scheme_as_reference();

/// Shapes around the edges of tiles, with GQA, widths that are no multiples of anything, and fewer or more queries than keys.
std::vector<ref::Shape> edge_shapes();

struct NamedMask {
  std::string name;
  ref::Visibility visibility;
};
/// Every kind of mask that fits any shape.
std::vector<NamedMask> every_mask(const ref::Shape& s);

}  // namespace phasor::test
