// SPDX-License-Identifier: Apache-2.0
// What the host side of a bias keeps while its call lasts, beside the workspace.
#pragma once

#include <cstdint>
#include <vector>

#include "job/attention/terms.hpp"
#include "plan/bias/bias.hpp"

namespace phasor::attend {

/// The perceptron of one hidden layer of ReLU as segments of x >= 0, from the knot before.
struct FireLines {
  std::vector<double> knots;   // rising
  std::vector<double> slopes;  // (heads, knots + 1)
  std::vector<double> offsets;
};

struct BiasNumbers {
  plan::BiasSource source;      // the term's, or with the numbers that come with the call
  std::vector<double> learned;  // those
  FireLines lines;              // of a FIRE that is piecewise
  double* finishing = nullptr;  // in the workspace: what gradients are made of at the end
};

/// Numbers that cannot be are an error. The call's heads are known.
Status make_bias_numbers(const job::BiasTermJob& term, std::int64_t heads, const char* where, BiasNumbers& out);

}  // namespace phasor::attend
