// SPDX-License-Identifier: Apache-2.0
// Validation of a bias spec: one function per scheme, the first field that does not fit is reported.
#include "spec/bias.hpp"

#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

// Far beyond any model; they keep a mistyped number from asking for all memory, and every product of extents inside int64.
constexpr std::int64_t most_heads = 1 << 16;
constexpr std::int64_t most_rows = 1 << 24;
constexpr std::int64_t most_buckets = 1 << 16;
constexpr std::int64_t longest_distance = std::int64_t{1} << 53;
constexpr std::int64_t widest_window = 1 << 11;
constexpr std::int64_t widest_layer = 1 << 16;
constexpr std::size_t most_layers = 16;
// Keeps every product and logarithm of the formulas inside float64.
constexpr double largest_parameter = 0x1p256;

std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(double value) { return std::isnan(value) ? "nan" : spec::format("{}", value); }  // the sign of a NaN says nothing

template <class T>
Status wrong(std::string_view scheme, std::string_view field, T value, std::string_view wanted) {
  return Status::invalid(spec::format("{}: {} is {}, wanted {}", scheme, field, text(value), wanted));
}

Status first_error(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status) return status;
  }
  return {};
}

struct Bounds {
  std::int64_t low;
  std::int64_t high;
};

Status check_count(std::string_view scheme, std::string_view field, std::int64_t value, Bounds bounds) {
  if (value >= bounds.low && value <= bounds.high) return {};
  return wrong(scheme, field, value, spec::format("{} to {}", bounds.low, bounds.high));
}

Status check_heads(std::string_view scheme, std::int64_t heads) { return check_count(scheme, "heads", heads, {1, most_heads}); }

Status check_finite(std::string_view scheme, std::string_view field, double value) {
  return std::fabs(value) <= largest_parameter ? Status() : wrong(scheme, field, value, "a finite number, at most 2^256 either way");
}

Status check_positive(std::string_view scheme, std::string_view field, double value) {
  return value >= 1 / largest_parameter && value <= largest_parameter ? Status() : wrong(scheme, field, value, "2^-256 to 2^256");
}

/// Of KERPLE: beyond, the kernel is not definite.
Status check_power(std::string_view scheme, std::string_view field, double value) {
  return value <= 2 ? Status() : wrong(scheme, field, value, "more than 0, at most 2");
}

template <class Enum>
Status check_enum(std::string_view scheme, std::string_view field, Enum value, Enum last) {
  return value <= last ? Status() : wrong(scheme, field, static_cast<std::int64_t>(value), "one of its enumerators");
}

using CheckNumber = Status (*)(std::string_view scheme, std::string_view field, double value);

Status check_list(std::string_view scheme, std::string_view field, std::span<const double> list, CheckNumber fits) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (Status status = fits(scheme, spec::format("{}[{}]", field, i), list[i]); !status) return status;
  }
  return {};
}

Status check_size(std::string_view scheme, std::string_view field, std::size_t size, std::int64_t wanted) {
  if (static_cast<std::int64_t>(size) == wanted) return {};
  return Status::invalid(spec::format("{}: {} has {} entries, wanted {}", scheme, field, size, wanted));
}

/// Given, with an entry for every row of every head, or empty.
Status check_table(std::string_view scheme, const std::vector<double>& table, std::int64_t heads, std::int64_t rows) {
  if (rows > most_rows) return wrong(scheme, "the number of table rows", rows, "at most " + text(most_rows));
  if (table.empty()) return {};
  if (Status status = check_size(scheme, "table", table.size(), heads * rows); !status) return status;
  return check_list(scheme, "table", table, check_finite);
}

std::int64_t mlp_parameters(const Mlp& mlp) {
  std::int64_t count = 0;
  for (std::size_t l = 1; l < mlp.widths.size(); ++l) count += mlp.widths[l] * (mlp.widths[l - 1] + 1);
  return count;
}

Status check_mlp(std::string_view scheme, const Mlp& mlp, std::int64_t inputs) {
  if (mlp.widths.size() < 2 || mlp.widths.size() > most_layers + 1) {
    return Status::invalid(spec::format("{}: mlp.widths has {} entries, wanted 2 to {}", scheme, mlp.widths.size(), most_layers + 1));
  }
  if (mlp.widths[0] != inputs) return wrong(scheme, "mlp.widths[0]", mlp.widths[0], text(inputs));
  for (std::size_t l = 1; l < mlp.widths.size(); ++l) {
    if (Status status = check_count(scheme, spec::format("mlp.widths[{}]", l), mlp.widths[l], {1, widest_layer}); !status) return status;
  }
  return first_error({check_enum(scheme, "mlp.activation", mlp.activation, Activation::silu),
                      check_size(scheme, "mlp.parameters", mlp.parameters.size(), mlp_parameters(mlp)),
                      check_list(scheme, "mlp.parameters", mlp.parameters, check_finite)});
}

Status check_window(std::string_view scheme, std::string_view field, const Window& window, std::int64_t least) {
  return first_error({check_count(scheme, spec::format("{}.height", field), window.height, {least, widest_window}),
                      check_count(scheme, spec::format("{}.width", field), window.width, {least, widest_window})});
}

Status check_scheme(const Alibi& s) {
  return first_error({check_heads("Alibi", s.heads), s.slopes.empty() ? Status() : check_size("Alibi", "slopes", s.slopes.size(), s.heads),
                      check_list("Alibi", "slopes", s.slopes, check_finite),
                      s.max_bias > 0 && s.max_bias <= 256 ? Status() : wrong("Alibi", "max_bias", s.max_bias, "more than 0, at most 256"),
                      check_enum("Alibi", "form", s.form, AlibiForm::key_position),
                      check_enum("Alibi", "rounding", s.rounding, SlopeRounding::bf16)});
}

Status check_scheme(const T5Buckets& s) {
  constexpr const char* name = "T5Buckets";
  if (Status status = first_error({check_heads(name, s.heads), check_enum(name, "sides", s.sides, BucketSides::behind)}); !status) {
    return status;
  }
  const bool both = s.sides == BucketSides::both;
  if (Status status = check_count(name, "buckets", s.buckets, {both ? 4 : 2, most_buckets}); !status) return status;
  if (both && s.buckets % 2 != 0) return wrong(name, "buckets", s.buckets, "an even number for both sides");
  const std::int64_t exact = side_buckets(s) / 2;
  if (s.max_distance <= exact || s.max_distance > longest_distance) {  // the logarithm's bins begin at `exact` and end at max_distance
    return wrong(name, "max_distance", s.max_distance, spec::format("more than {}, half the buckets of a side, and at most 2^53", exact));
  }
  return check_table(name, s.table, s.heads, s.buckets);
}

Status check_scheme(const DebertaBuckets& s) {
  constexpr const char* name = "DebertaBuckets";
  if (Status status = first_error({check_heads(name, s.heads), check_enum(name, "reading", s.reading, DebertaReading::hf_swapped),
                                   check_count(name, "max_distance", s.max_distance, {1, most_rows / 2})});
      !status) {
    return status;
  }
  if (s.buckets != 0) {
    if (Status status = check_count(name, "buckets", s.buckets, {4, most_buckets}); !status) return status;
    if (s.max_distance - 1 <= s.buckets / 2) {
      return wrong(name, "max_distance", s.max_distance, spec::format("more than {}, half the buckets and 1", s.buckets / 2 + 1));
    }
    // Swapped, the logarithm of (buckets - 1) / (max_distance / 2) divides: it must not be 0, nor of 0.
    if (s.reading == DebertaReading::hf_swapped && s.buckets - 1 == s.max_distance / 2) {
      return wrong(name, "max_distance", s.max_distance, "a half that is not buckets - 1, for hf_swapped");
    }
  }
  return check_table(name, s.table, s.heads, 2 * (s.buckets == 0 ? s.max_distance : s.buckets));
}

Status check_scheme(const ShawClip& s) {
  return first_error({check_heads("ShawClip", s.heads), check_count("ShawClip", "left", s.left, {0, most_rows / 2 - 1}),
                      check_count("ShawClip", "right", s.right, {0, most_rows / 2 - 1}),
                      check_table("ShawClip", s.table, s.heads, s.left + 1 + s.right)});
}

Status check_scheme(const Kerple& s) {
  if (Status status = first_error({check_count("Kerple", "the size of r1", static_cast<std::int64_t>(s.r1.size()), {1, most_heads}),
                                   check_size("Kerple", "r2", s.r2.size(), static_cast<std::int64_t>(s.r1.size())),
                                   check_enum("Kerple", "kind", s.kind, KerpleKind::power),
                                   check_list("Kerple", "r1", s.r1, check_positive), check_list("Kerple", "r2", s.r2, check_positive)});
      !status || s.kind == KerpleKind::logarithmic) {
    return status;
  }
  return check_list("Kerple", "r2", s.r2, check_power);
}

Status check_scheme(const Sandwich& s) {
  return first_error({check_heads("Sandwich", s.heads), check_count("Sandwich", "width", s.width, {2, widest_layer}),
                      s.width % 2 == 0 ? Status() : wrong("Sandwich", "width", s.width, "an even number"),
                      s.base >= 1 && s.base <= 0x1p100 ? Status() : wrong("Sandwich", "base", s.base, "1 to 2^100")});
}

Status check_scheme(const Fire& s) {
  return first_error({check_mlp("Fire", s.mlp, 1), check_positive("Fire", "c", s.c), check_positive("Fire", "length", s.length),
                      s.epsilon >= 0 && s.epsilon <= 1 ? Status() : wrong("Fire", "epsilon", s.epsilon, "0 to 1")});
}

Status check_scheme(const DynamicMlp& s) {
  return first_error({check_mlp("DynamicMlp", s.mlp, 1), check_enum("DynamicMlp", "scale", s.scale, DistanceScale::logarithmic)});
}

Status check_scheme(const SwinTable& s) {
  if (Status status = check_window("SwinTable", "window", s.window, 1); !status) return status;
  return first_error({check_heads("SwinTable", s.heads), check_table("SwinTable", s.table, s.heads, window_rows(s.window))});
}

Status check_scheme(const SwinV2& s) {
  const bool given = s.trained.height != 0 || s.trained.width != 0;
  return first_error({check_window("SwinV2", "window", s.window, 1), given ? check_window("SwinV2", "trained", s.trained, 2) : Status(),
                      check_mlp("SwinV2", s.mlp, 2)});
}

std::int64_t mlp_heads(const Mlp& mlp) { return mlp.widths.back(); }

struct Heads {
  std::int64_t operator()(const Kerple& s) const { return static_cast<std::int64_t>(s.r1.size()); }
  std::int64_t operator()(const Fire& s) const { return mlp_heads(s.mlp); }
  std::int64_t operator()(const DynamicMlp& s) const { return mlp_heads(s.mlp); }
  std::int64_t operator()(const SwinV2& s) const { return mlp_heads(s.mlp); }
  template <class Scheme>
  std::int64_t operator()(const Scheme& s) const {
    return s.heads;
  }
};

struct Rows {
  std::int64_t operator()(const T5Buckets& s) const { return s.buckets; }
  std::int64_t operator()(const DebertaBuckets& s) const { return 2 * (s.buckets == 0 ? s.max_distance : s.buckets); }
  std::int64_t operator()(const ShawClip& s) const { return s.left + 1 + s.right; }
  std::int64_t operator()(const SwinTable& s) const { return window_rows(s.window); }
  template <class Scheme>
  std::int64_t operator()(const Scheme& /*s*/) const {
    return 0;
  }
};

struct Parameters {
  std::int64_t operator()(const Alibi& s) const { return s.heads; }
  std::int64_t operator()(const Kerple& s) const { return static_cast<std::int64_t>(s.r1.size() + s.r2.size()); }
  std::int64_t operator()(const Sandwich& /*s*/) const { return 0; }
  std::int64_t operator()(const Fire& s) const { return mlp_parameters(s.mlp) + 2; }
  std::int64_t operator()(const DynamicMlp& s) const { return mlp_parameters(s.mlp); }
  std::int64_t operator()(const SwinV2& s) const { return mlp_parameters(s.mlp); }
  template <class Table>
  std::int64_t operator()(const Table& s) const {
    return s.heads * Rows()(s);
  }
};

}  // namespace

Status check_numbers(const NamedNumbers& numbers, NumberRule rule) {
  const CheckNumber fits = rule == NumberRule::finite ? check_finite : rule == NumberRule::positive ? check_positive : check_power;
  if (numbers.is_list) return check_list(numbers.scheme, numbers.field, numbers.values, fits);
  return fits(numbers.scheme, numbers.field, numbers.values[0]);
}

Status check(const BiasSpec& spec) {
  return std::visit([](const auto& scheme) { return check_scheme(scheme); }, spec);
}
std::int64_t heads_of(const BiasSpec& spec) { return std::visit(Heads(), spec); }
std::int64_t table_rows(const BiasSpec& spec) { return std::visit(Rows(), spec); }
std::int64_t parameter_count(const BiasSpec& spec) { return std::visit(Parameters(), spec); }
Window trained_window(const SwinV2& s) { return s.trained.height == 0 ? s.window : s.trained; }

}  // namespace phasor::spec
