// SPDX-License-Identifier: Apache-2.0
// phasor table: frequencies, wavelengths, cos and sin, and the rotation as matrices. All numbers come from the library.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "command.hpp"
#include "figures/joined.hpp"
#include "number_list.hpp"
#include "phasor/analysis.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

/// Beside pair, frequency and wavelength this many positions fit on a line.
constexpr std::size_t kPositionsAcross = 4;

struct TableOptions {
  SpecOptions spec;
  std::string positions;
  std::string pairs;
  std::optional<std::int64_t> matrix;
  std::string relative;
  int digits = 3;
  bool json = false;
  bool csv = false;
};

/// All that the printers need.
struct Table {
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> pairs;
  std::vector<double> wavelengths;
  std::vector<double> cos;  // (position, pair)
  std::vector<double> sin;
  std::size_t stride = 0;  // pairs of the spec

  std::size_t at(std::size_t position, std::int64_t pair) const { return position * stride + static_cast<std::size_t>(pair); }
};

Result<Table> make_table(const Rotary& rotary, const std::vector<std::int64_t>& positions_wanted, const std::vector<std::int64_t>& pairs) {
  Table table{positions_wanted, pairs, wavelengths(rotary), {}, {}, rotary.frequencies().size()};
  const auto last = static_cast<std::int64_t>(table.stride);
  if (pairs.empty()) {
    for (std::int64_t pair = 0; pair < last; ++pair) table.pairs.push_back(pair);
  }
  for (const std::int64_t pair : pairs) {
    if (pair < 0 || pair >= last) return Status::invalid(fmt::format("--pairs: pair is {}, wanted 0 to {}", pair, last - 1));
  }
  table.cos.resize(positions_wanted.size() * table.stride);
  table.sin.resize(table.cos.size());
  const auto tokens = static_cast<std::int64_t>(positions_wanted.size());
  const Extents shape{1, tokens, 1, last};
  const Status status =
      rotary.cos_sin(positions(positions_wanted.data(), tokens), view(table.cos.data(), shape), view(table.sin.data(), shape));
  if (!status.ok()) return status;
  return table;
}

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string headline(const Rotary& rotary) {
  const std::string softmax = rotary.softmax_scale() == 1 ? "" : fmt::format(", softmax scale {:.6g}", rotary.softmax_scale());
  return fmt::format("{}\namplitude {:.6g}{}\n\n", describe(rotary.spec()), rotary.amplitude(), softmax);
}

/// One block: every pair, and the positions [begin, end).
void append_block(const Rotary& rotary, const Table& table, std::size_t begin, std::size_t end, std::string& out) {
  out += fmt::format("{:>5} {:>12} {:>12}", "pair", "frequency", "wavelength");
  for (std::size_t p = begin; p < end; ++p) {
    out += fmt::format(" {:>13} {:>13}", fmt::format("cos {}", table.positions[p]), fmt::format("sin {}", table.positions[p]));
  }
  out += '\n';
  for (const std::int64_t pair : table.pairs) {
    const auto i = static_cast<std::size_t>(pair);
    out += fmt::format("{:>5} {:>12.6g} {:>12.6g}", pair, rotary.frequencies()[i], table.wavelengths[i]);
    for (std::size_t p = begin; p < end; ++p)
      out += fmt::format(" {:>13.6g} {:>13.6g}", table.cos[table.at(p, pair)], table.sin[table.at(p, pair)]);
    out += '\n';
  }
}

void append_text(const Rotary& rotary, const Table& table, std::string& out) {
  out += headline(rotary);
  std::size_t begin = 0;
  do {
    const std::size_t end = std::min(begin + kPositionsAcross, table.positions.size());
    if (begin > 0) out += '\n';
    append_block(rotary, table, begin, end, out);
    begin = end;
  } while (begin < table.positions.size());
}

void append_csv(const Rotary& rotary, const Table& table, std::string& out) {
  const auto line = [&](std::int64_t pair) {
    return fmt::format("{},{},{}", pair, rotary.frequencies()[static_cast<std::size_t>(pair)],
                       table.wavelengths[static_cast<std::size_t>(pair)]);
  };
  if (table.positions.empty()) {
    out += "pair,frequency,wavelength\n";
    for (const std::int64_t pair : table.pairs) out += line(pair) + "\n";
    return;
  }
  out += "position,pair,frequency,wavelength,cos,sin\n";
  for (std::size_t p = 0; p < table.positions.size(); ++p) {
    for (const std::int64_t pair : table.pairs) {
      out += fmt::format("{},{},{},{}\n", table.positions[p], line(pair), table.cos[table.at(p, pair)], table.sin[table.at(p, pair)]);
    }
  }
}

std::string json_column(const Table& table, const std::vector<double>& values, std::int64_t pair) {
  std::string list;
  for (std::size_t p = 0; p < table.positions.size(); ++p) list += fmt::format("{}{}", p == 0 ? "" : ", ", values[table.at(p, pair)]);
  return fmt::format("[{}]", list);
}

void append_json(const Rotary& rotary, const Table& table, std::string& out) {
  out += fmt::format("{{\"spec\": {},\n \"amplitude\": {}, \"softmax_scale\": {},\n \"positions\": [{}],\n \"pairs\": [",
                     to_json(rotary.spec()), rotary.amplitude(), rotary.softmax_scale(), joined(table.positions, ", "));
  const char* separator = "\n  ";
  for (const std::int64_t pair : table.pairs) {
    const auto i = static_cast<std::size_t>(pair);
    out += fmt::format(R"({}{{"pair": {}, "frequency": {}, "wavelength": {}, "cos": {}, "sin": {}}})", separator, pair,
                       rotary.frequencies()[i], json_number(table.wavelengths[i]), json_column(table, table.cos, pair),
                       json_column(table, table.sin, pair));
    separator = ",\n  ";
  }
  out += "]}\n";
}

/// Rows of a matrix with values written by `write`, `between` values and `after` each row but the last.
template <class Write>
std::string rows_of(const Matrix& matrix, const Write& write, const char* between, const char* after) {
  std::string text;
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    if (r > 0) text += after;
    for (std::int64_t c = 0; c < matrix.columns; ++c) {
      if (c > 0) text += between;
      text += write(matrix.values[static_cast<std::size_t>(r * matrix.columns + c)]);
    }
  }
  return text;
}

void append_matrix(const TableOptions& options, const std::string& name, const Rotary& rotary, const Matrix& matrix, std::string& out) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  const int width = options.digits + 3;  // a sign, a zero and a point
  const auto rounded = [&](double value) { return fmt::format("{:>{}.{}g}", value, width, options.digits); };
  if (options.csv) {
    out += rows_of(matrix, exact, ",", "\n") + "\n";
  } else if (options.json) {
    out += fmt::format("{{\"spec\": {},\n \"matrix\": \"{}\",\n \"values\": [[{}]]}}\n", to_json(rotary.spec()), name,
                       rows_of(matrix, exact, ", ", "],\n  ["));
  } else {
    out += fmt::format("{}{}, {} x {}\n[{}]\n", headline(rotary), name, matrix.rows, matrix.columns, rows_of(matrix, rounded, " ", ";\n "));
  }
}

Status run_matrix(const TableOptions& options, const Rotary& rotary, std::string& out) {
  if (options.matrix.has_value()) {
    const auto matrix = rotation_matrix(rotary, *options.matrix);
    if (!matrix.ok()) return matrix.status();
    append_matrix(options, fmt::format("R({})", *options.matrix), rotary, *matrix, out);
    return {};
  }
  const auto ends = parse_numbers("--relative", options.relative);
  const auto matrix = relative_matrix(rotary, ends[0], ends[1]);
  if (!matrix.ok()) return matrix.status();
  append_matrix(options, fmt::format("R({})^T R({})", ends[0], ends[1]), rotary, *matrix, out);
  return {};
}

Status run_table(const TableOptions& options, std::string& out) {
  const auto rotary = Rotary::make(spec_of(options.spec));
  if (!rotary.ok()) return rotary.status();
  if (options.matrix.has_value() || !options.relative.empty()) return run_matrix(options, *rotary, out);
  const auto list = [](const char* name, const std::string& text) {
    return text.empty() ? std::vector<std::int64_t>{} : parse_numbers(name, text);
  };
  const auto table = make_table(*rotary, list("--positions", options.positions), list("--pairs", options.pairs));
  if (!table.ok()) return table.status();
  (options.json ? append_json : options.csv ? append_csv : append_text)(*rotary, *table, out);
  return {};
}

/// What is wrong whatever the library says, found while parsing so that it counts as used wrongly.
void check_usage(const TableOptions& options) {
  (void)spec_of(options.spec);
  if (!options.positions.empty()) (void)parse_numbers("--positions", options.positions);
  if (!options.pairs.empty()) (void)parse_numbers("--pairs", options.pairs);
  if (!options.relative.empty() && parse_numbers("--relative", options.relative).size() != 2) {
    throw UsageError(fmt::format("--relative: is {}, wanted two positions, query,key", options.relative));
  }
}

}  // namespace

void add_table(const Command& tool, Run& run) {
  const Command command = tool.subcommand("table", "Frequencies, wavelengths, cos and sin of an encoding; its rotation as a matrix");
  const auto o = std::make_shared<TableOptions>();
  add_spec_options(command, o->spec);
  const Option at = command.option("--positions", o->positions, "Adds cos and sin there: 1,10,100 or 0:11 (0 to 10) or 0:100:10");
  const Option pairs = command.option("--pairs", o->pairs, "Shows these pairs only, a list like --positions");
  const Option matrix =
      command.option("--matrix", o->matrix, "Prints the rotation at this position as a matrix").excludes(at).excludes(pairs);
  command.option("--relative", o->relative, "Prints the operator between positions query,key as a matrix")
      .excludes(matrix)
      .excludes(at)
      .excludes(pairs);
  command.option("--digits", o->digits, "Digits of a matrix for people (3)").range(1, 17);
  const Option json = command.flag("--json", o->json, "Print JSON, every number in full");
  command.flag("--csv", o->csv, "Print CSV, every number in full").excludes(json);
  command.footer(
      "Examples:\n"
      "  phasor table --model llama3.1 --positions 1,1000000 --pairs 0:4\n"
      "  phasor table --head-dim 64 --scaling yarn --factor 4 --original-length 4096\n"
      "  phasor table --head-dim 4 --pairing interleaved --matrix 2");
  command.chosen([o, &run] {
    check_usage(*o);
    run = [o](std::string& out) { return run_table(*o, out); };
  });
}

}  // namespace phasor::cli
