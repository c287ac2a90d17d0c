// SPDX-License-Identifier: Apache-2.0
// A small interface to the command-line parser: CLI11 takes 6 s to read, so parser.cpp alone includes it.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
class Option;
}  // namespace CLI

namespace phasor::cli {

/// Used wrongly: exit code 2, and a hint at --help.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An option of a command; each function narrows what it takes, or says more of it, and returns it again.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option group(const std::string& heading) const;  // of --help
  Option excludes(const Option& other) const;      // both together are refused
  Option range(int low, int high) const;
  Option positive() const;
  Option not_negative() const;
  Option one_of(const std::vector<std::string>& choices) const;
  Option comma_separated() const;  // of a list: one word "1,2,3"
  Option one_word() const;         // of a list: each use of the option takes one word

 private:
  CLI::Option* option_;
};

/// A command and its options. Values bound to options must outlive the parsing.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command subcommand(const char* name, const char* text) const;
  void require_subcommand() const;
  /// "--name", "--name,-n", or "name" of a positional argument. T: std::string, int, std::int64_t, std::optional of these or of double,
  /// std::vector of std::string, double or std::int64_t.
  template <class T>
  Option option(const char* names, T& value, const std::string& text) const;
  Option flag(const char* name, bool& value, const char* text) const;
  /// Below the options in --help.
  void footer(const char* text) const;
  /// Called while parsing when this command was chosen; may throw UsageError.
  void chosen(std::function<void()> call) const;

 private:
  CLI::App* app_;
};

class Parser {
 public:
  Parser(const char* text, const char* name);
  Parser();  // without --help: for words inside an option
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser();

  Command command() const { return Command(app_.get()); }
  void version(const std::string& text);
  /// What to print instead of running anything (--help, --version), else empty. Throws UsageError.
  std::string parse(int argc, const char* const* argv);
  /// The same for words without a program's name; throws UsageError.
  void parse(std::vector<std::string> words);
  /// Names of the command that was being parsed, outermost first: {"plot", "decay"}.
  std::vector<std::string> chosen_names() const;
  std::string help() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace phasor::cli
