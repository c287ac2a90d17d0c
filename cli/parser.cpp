// SPDX-License-Identifier: Apache-2.0
// The parser: everything that the tool takes from CLI11. Validators are without their descriptions, which the options' own words give.
#include "parser.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

namespace phasor::cli {

Option Option::required() const { return Option(option_->required()); }
Option Option::group(const std::string& heading) const { return Option(option_->group(heading)); }
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::range(int low, int high) const { return Option(option_->check(CLI::Range(low, high).description(""))); }
Option Option::positive() const { return Option(option_->check(CLI::Validator(CLI::PositiveNumber).description(""))); }
Option Option::not_negative() const { return Option(option_->check(CLI::Validator(CLI::NonNegativeNumber).description(""))); }
Option Option::one_of(const std::vector<std::string>& choices) const {
  return Option(option_->check(CLI::Validator(CLI::IsMember(choices)).description("")));
}
Option Option::comma_separated() const { return Option(option_->delimiter(',')->allow_extra_args(false)); }
Option Option::one_word() const { return Option(option_->allow_extra_args(false)); }

Command Command::subcommand(const char* name, const char* text) const { return Command(app_->add_subcommand(name, text)); }
void Command::require_subcommand() const { app_->require_subcommand(1); }
template <class T>
Option Command::option(const char* names, T& value, const std::string& text) const {
  return Option(app_->add_option(names, value, text));
}
template Option Command::option(const char* names, std::string& value, const std::string& text) const;
template Option Command::option(const char* names, int& value, const std::string& text) const;
template Option Command::option(const char* names, std::int64_t& value, const std::string& text) const;
template Option Command::option(const char* names, std::optional<std::string>& value, const std::string& text) const;
template Option Command::option(const char* names, std::optional<int>& value, const std::string& text) const;
template Option Command::option(const char* names, std::optional<std::int64_t>& value, const std::string& text) const;
template Option Command::option(const char* names, std::optional<double>& value, const std::string& text) const;
template Option Command::option(const char* names, std::vector<std::string>& value, const std::string& text) const;
template Option Command::option(const char* names, std::vector<std::int64_t>& value, const std::string& text) const;
template Option Command::option(const char* names, std::vector<double>& value, const std::string& text) const;
Option Command::flag(const char* name, bool& value, const char* text) const { return Option(app_->add_flag(name, value, text)); }
void Command::footer(const char* text) const { app_->footer(text); }
void Command::chosen(std::function<void()> call) const { app_->callback(std::move(call)); }

Parser::Parser(const char* text, const char* name) : app_(std::make_unique<CLI::App>(text, name)) {}
Parser::Parser() : app_(std::make_unique<CLI::App>()) { app_->set_help_flag(); }
Parser::~Parser() = default;

void Parser::version(const std::string& text) { app_->set_version_flag("--version", text); }

std::string Parser::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) throw UsageError(error.what());
    std::ostringstream shown;
    app_->exit(error, shown, shown);
    return shown.str();
  }
  return {};
}

void Parser::parse(std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

std::vector<std::string> Parser::chosen_names() const {
  std::vector<std::string> names;
  for (auto chosen = app_->get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    names.push_back(chosen.front()->get_name());
  }
  return names;
}

std::vector<std::string> Parser::command_names() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_->get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

std::string Parser::help() const { return app_->help(); }

}  // namespace phasor::cli
