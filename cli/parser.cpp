// SPDX-License-Identifier: Apache-2.0
// The parser: everything that the tool takes from CLI11.
#include "parser.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "figures/joined.hpp"
#include "uses.hpp"

namespace phasor::cli {
namespace {

/// `check` in words of ours: "is 0, wanted 1 to 9"; the option's name comes in front. Without a description, since the options' own
/// words say what they take.
CLI::Validator in_words(const CLI::Validator& check, const std::string& wanted) {
  return {[=](const std::string& text) { return check(text).empty() ? std::string() : fmt::format("is {}, wanted {}", text, wanted); }, ""};
}

/// What a value of an option of type T must be.
template <class T>
struct Element {
  using Type = T;
};
template <class T>
struct Element<std::optional<T>> : Element<T> {};
template <class T>
struct Element<std::vector<T>> : Element<T> {};

const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

/// The program and the commands that were chosen: "phasor plot decay".
std::string full_name(const CLI::App& top) {
  std::string name = top.get_name();
  for (auto chosen = top.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    name += " " + chosen.front()->get_name();
  }
  return name;
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

/// About a word that no option or command took; `command` is what was chosen last.
std::string unexpected(const CLI::App& top, const CLI::App& command, const std::string& word) {
  const std::string name = full_name(top);
  if (word.starts_with('-')) return fmt::format("{} is no option of {}", word, name);
  const auto below = names_below(command);
  if (below.empty()) return fmt::format("{} is one word too many for {}", word, name);
  return fmt::format("{}{} is no command, wanted {}", &command == &top ? "" : command.get_name() + ": ", word, listed(below));
}

/// Where, what is, what is wanted: CLI11 says the last two in other words, or not at all.
std::string words_of(const CLI::App& top, const CLI::ParseError& error) {
  const CLI::App& command = *innermost(&top);
  std::vector<std::string> extras = top.remaining(true);
  std::erase(extras, "--");  // CLI11 counts the end of the options among them
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!extras.empty() && (missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    return unexpected(top, command, extras.front());
  }
  if (!missing) return error.what();
  if (const auto below = names_below(command); !below.empty()) {
    return fmt::format("{}: no command, wanted {}", command.get_name(), listed(below));
  }
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    return fmt::format("{}: {} is missing ({})", command.get_name(), option->get_name(), option->get_description());
  }
  return error.what();
}

}  // namespace

Option Option::required() const { return Option(option_->required()); }
Option Option::group(const std::string& heading) const { return Option(option_->group(heading)); }
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::range(int low, int high) const {
  return Option(option_->check(in_words(CLI::Range(low, high), fmt::format("{} to {}", low, high))));
}
Option Option::positive() const { return Option(option_->check(in_words(CLI::PositiveNumber, "more than 0"))); }
Option Option::not_negative() const { return Option(option_->check(in_words(CLI::NonNegativeNumber, "0 or more"))); }
Option Option::one_of(const std::vector<std::string>& choices) const {
  return Option(option_->check(in_words(CLI::IsMember(choices), listed(choices))));
}
Option Option::comma_separated() const { return Option(option_->delimiter(',')->allow_extra_args(false)); }
Option Option::one_word() const { return Option(option_->allow_extra_args(false)); }

Command Command::subcommand(const char* name, const char* text) const { return Command(app_->add_subcommand(name, text)); }
void Command::require_subcommand() const { app_->require_subcommand(1); }
template <class T>
Option Command::option(const char* names, T& value, const std::string& text) const {
  using Type = typename Element<T>::Type;
  CLI::Option* option = app_->add_option(names, value, text);
  if constexpr (std::is_arithmetic_v<Type>) {
    option->check(in_words(CLI::TypeValidator<Type>(""), std::is_integral_v<Type> ? "a whole number" : "a number"));
  }
  return Option(option);
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
Parser::Parser() : app_(std::make_unique<CLI::App>("", "an encoding")) { app_->set_help_flag(); }
Parser::~Parser() = default;

void Parser::version(const std::string& text) { app_->set_version_flag("--version", text); }

std::string Parser::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) throw UsageError(words_of(*app_, error));
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
    throw UsageError(words_of(*app_, error));
  }
}

std::vector<std::string> Parser::chosen_names() const {
  std::vector<std::string> names;
  for (auto chosen = app_->get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    names.push_back(chosen.front()->get_name());
  }
  return names;
}

std::string Parser::help() const { return app_->help(); }

}  // namespace phasor::cli
