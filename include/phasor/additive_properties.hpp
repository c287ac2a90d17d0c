// SPDX-License-Identifier: Apache-2.0
// Properties of encodings that are added, measured on their values; the encodings that serve for comparison; adding against concatenating.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phasor/additive.hpp"

namespace phasor {

/// An encoding as a function: the row of `width` values of a position in a sequence of some length. An error: it has none there.
struct EncodingRows {
  std::string name;
  std::int64_t width = 0;
  std::function<Status(std::int64_t position, std::int64_t length, std::span<double> row)> row;
};
EncodingRows sinusoidal_rows(const Sinusoidal& sinusoidal);
/// Rows of a table (1, N, 1, D), which must outlive them.
EncodingRows learned_rows(const ConstTensorView& table);
/// What the seeds reject: the position itself; the position / (length - 1); its binary digits, the highest first.
EncodingRows raw_index_rows();
EncodingRows scaled_index_rows();
EncodingRows binary_rows(std::int64_t digits);

/// What the values of the positions 0 to length - 1, and some beyond, show.
struct EncodingProperties {
  double smallest_gap = 0;            // Euclidean distance of the two encodings that are nearest to each other
  bool unique = false;                // it is above 0
  bool independent_of_length = true;  // a sequence twice as long has the same rows, bit for bit
  double largest = 0;                 // magnitude of a value
  double growth = 1;                  // of `largest` at positions up to 2^20 times as far, where there are encodings
  bool bounded = false;               // it does not double
  double relative_defect = 0;         // largest change of <p_m, p_(m + distance)> with m, in parts of the largest <p_m, p_m>
  bool relative = false;              // there is none but rounding
  bool defined_beyond = false;        // positions beyond `trained_length` have encodings
  std::vector<double> alternations;   // of each channel: how often a position it crosses the middle of its range
};
/// length 2 to 4096; takes about length^2 * width. trained_length 0: length. A first row that is not there is an error. Allocates.
Result<EncodingProperties> measure_encoding(const EncodingRows& encoding, std::int64_t length, std::int64_t trained_length = 0);

/// (x + p) W, and the concatenation of x and p times W stacked on itself: the same but for rounding. W is (width, outputs).
struct AddingConcatenating {
  std::vector<double> added;
  std::vector<double> concatenated;
  std::int64_t extra_parameters = 0;  // of a concatenation whose weights are not shared: width * outputs
};
Result<AddingConcatenating> compare_adding(std::span<const double> x, std::span<const double> encoding, std::span<const double> weights);

}  // namespace phasor
