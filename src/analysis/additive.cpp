// SPDX-License-Identifier: Apache-2.0
// Properties of encodings, measured on values: nothing here knows what an encoding promises.

#include <algorithm>
#include <cmath>
#include <limits>

#include "job/element.hpp"
#include "job/learned.hpp"
#include "phasor/additive_properties.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

constexpr std::int64_t kLongest = 4096;
/// Rounding of inner products of a few thousand terms in float64, in parts of the largest.
constexpr double kRounding = 1e-12;

using Rows = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double largest_of(const std::vector<double>& row) {
  double largest = 0;
  for (const double x : row) largest = std::max(largest, std::fabs(x));
  return largest;
}

Result<Rows> rows_of(const EncodingRows& encoding, std::int64_t count, std::int64_t length) {
  Rows rows(static_cast<std::size_t>(count), std::vector<double>(static_cast<std::size_t>(encoding.width)));
  for (std::int64_t p = 0; p < count; ++p) {
    if (Status s = encoding.row(p, length, rows[static_cast<std::size_t>(p)]); !s) return s;
  }
  return rows;
}

double smallest_gap(const Rows& rows) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      double square = 0;
      for (std::size_t c = 0; c < rows[a].size(); ++c) square += (rows[a][c] - rows[b][c]) * (rows[a][c] - rows[b][c]);
      smallest = std::min(smallest, square);
    }
  }
  return std::sqrt(smallest);
}

double relative_defect(const Rows& rows) {
  double defect = 0;
  double largest = 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    largest = std::max(largest, dot(rows[m], rows[m]));
    for (std::size_t distance = 0; m + distance < rows.size(); ++distance) {
      defect = std::max(defect, std::fabs(dot(rows[m], rows[m + distance]) - dot(rows[0], rows[distance])));
    }
  }
  return largest == 0 ? 0 : defect / largest;
}

std::vector<double> alternations(const Rows& rows) {
  std::vector<double> rates;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    double low = rows[0][c];
    double high = low;
    for (const std::vector<double>& row : rows) {
      low = std::min(low, row[c]);
      high = std::max(high, row[c]);
    }
    const double middle = low + (high - low) / 2;
    std::int64_t crossings = 0;
    for (std::size_t p = 1; p < rows.size(); ++p) crossings += (rows[p][c] > middle) != (rows[p - 1][c] > middle) ? 1 : 0;
    rates.push_back(static_cast<double>(crossings) / static_cast<double>(rows.size() - 1));
  }
  return rates;
}

/// How much larger values become far away, where there are any.
double growth(const EncodingRows& encoding, std::int64_t length, double largest) {
  std::vector<double> row(static_cast<std::size_t>(encoding.width));
  double far = largest;
  for (std::int64_t factor = 1; factor <= std::int64_t{1} << 20; factor *= 2) {
    for (const std::int64_t p : {length * factor - 1, length * factor, length * factor + 1}) {
      if (encoding.row(p, p + 1, row).ok()) far = std::max(far, largest_of(row));
    }
  }
  return largest == 0 ? (far == 0 ? 1 : std::numeric_limits<double>::infinity()) : far / largest;
}

bool is_defined_beyond(const EncodingRows& encoding, std::int64_t trained_length) {
  std::vector<double> row(static_cast<std::size_t>(encoding.width));
  for (std::int64_t p = trained_length; p < 2 * trained_length; ++p) {
    if (!encoding.row(p, 2 * trained_length, row).ok()) return false;
  }
  return true;
}

/// Whether the rows of a sequence twice as long, where there is one, are the same.
bool is_independent(const EncodingRows& encoding, const Rows& rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const Result<Rows> longer = rows_of(encoding, count, 2 * count);
  return longer.ok() && *longer == rows;
}

Result<EncodingProperties> measure(const EncodingRows& encoding, std::int64_t length, std::int64_t trained_length) {
  if (length < 2 || length > kLongest)
    return Status::invalid(spec::format("measure_encoding: length is {}, wanted 2 to {}", length, kLongest));
  if (trained_length < 0 || trained_length > std::int64_t{1} << 24) {
    return Status::invalid(spec::format("measure_encoding: trained_length is {}, wanted 0 to 2^24", trained_length));
  }
  if (encoding.width < 1 || !encoding.row) return Status::invalid("measure_encoding: encoding has no channels or no rows");
  const Result<Rows> rows = rows_of(encoding, length, length);
  if (!rows.ok()) return rows.status();
  EncodingProperties is;
  is.smallest_gap = smallest_gap(*rows);
  is.unique = is.smallest_gap > 0;
  is.independent_of_length = is_independent(encoding, *rows);
  for (const std::vector<double>& row : *rows) is.largest = std::max(is.largest, largest_of(row));
  is.growth = growth(encoding, length, is.largest);
  is.bounded = is.growth < 2;
  is.relative_defect = relative_defect(*rows);
  is.relative = is.relative_defect < kRounding;
  is.defined_beyond = is_defined_beyond(encoding, trained_length == 0 ? length : trained_length);
  is.alternations = alternations(*rows);
  return is;
}

/// Sums over i of x_i W_(i, o).
std::vector<double> project(std::span<const double> x, std::span<const double> weights, std::size_t outputs) {
  std::vector<double> out(outputs, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t o = 0; o < outputs; ++o) out[o] += x[i] * weights[i * outputs + o];
  }
  return out;
}

}  // namespace

EncodingRows sinusoidal_rows(const Sinusoidal& sinusoidal) {
  const std::int64_t width = sinusoidal.spec().width;
  return {"sinusoidal", width, [sinusoidal, width](std::int64_t position, std::int64_t /*length*/, std::span<double> row) {
            return sinusoidal.fill(view(row.data(), {1, 1, 1, width}), positions_from(position));
          }};
}

EncodingRows learned_rows(const ConstTensorView& table) {
  return {"learned", table.shape[3], [table](std::int64_t position, std::int64_t /*length*/, std::span<double> row) {
            if (Status s = job::check_learned_table("learned_rows", "table", table); !s) return s;
            if (position < 0 || position >= table.shape[1]) {
              return Status::invalid(spec::format("learned_rows: position is {}, the table has {} rows", position, table.shape[1]));
            }
            for (std::int64_t c = 0; c < table.shape[3]; ++c) row[static_cast<std::size_t>(c)] = job::value_at(table, 0, position, c);
            return Status();
          }};
}

EncodingRows raw_index_rows() {
  return {"raw index", 1, [](std::int64_t position, std::int64_t /*length*/, std::span<double> row) {
            row[0] = static_cast<double>(position);
            return Status();
          }};
}

EncodingRows scaled_index_rows() {
  return {"scaled index", 1, [](std::int64_t position, std::int64_t length, std::span<double> row) {
            row[0] = length < 2 ? 0 : static_cast<double>(position) / static_cast<double>(length - 1);
            return Status();
          }};
}

EncodingRows binary_rows(std::int64_t digits) {
  return {"binary digits", digits, [digits](std::int64_t position, std::int64_t /*length*/, std::span<double> row) {
            if (position < 0 || (digits < 63 && position >> digits != 0)) {
              return Status::invalid(spec::format("binary_rows: position is {}, wanted what {} digits hold", position, digits));
            }
            for (std::int64_t d = 0; d < digits; ++d) {
              const std::int64_t place = digits - 1 - d;
              row[static_cast<std::size_t>(d)] = place > 62 ? 0 : static_cast<double>(position >> place & 1);
            }
            return Status();
          }};
}

Result<EncodingProperties> measure_encoding(const EncodingRows& encoding, std::int64_t length, std::int64_t trained_length) {
  return spec::without_exceptions("measure_encoding", [&] { return measure(encoding, length, trained_length); });
}

Result<AddingConcatenating> compare_adding(std::span<const double> x, std::span<const double> encoding, std::span<const double> weights) {
  if (x.empty() || x.size() != encoding.size()) {
    return Status::invalid(
        spec::format("compare_adding: x has {} channels and the encoding {}, wanted the same", x.size(), encoding.size()));
  }
  if (weights.size() % x.size() != 0) {
    return Status::invalid(spec::format("compare_adding: weights has {} elements, wanted a multiple of {}", weights.size(), x.size()));
  }
  return spec::without_exceptions([&]() -> Result<AddingConcatenating> {
    const std::size_t outputs = weights.size() / x.size();
    std::vector<double> sum(x.begin(), x.end());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += encoding[i];
    std::vector<double> both(x.begin(), x.end());
    both.insert(both.end(), encoding.begin(), encoding.end());
    std::vector<double> stacked(weights.begin(), weights.end());
    stacked.insert(stacked.end(), weights.begin(), weights.end());
    return AddingConcatenating{project(sum, weights, outputs), project(both, stacked, outputs), static_cast<std::int64_t>(weights.size())};
  });
}

}  // namespace phasor
