// SPDX-License-Identifier: Apache-2.0
// What a command of the tool is: options it adds to the parser, and a function that makes its output.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "phasor/result.hpp"

namespace phasor::cli {

/// Appends the output to `out`; a failed check may have output and fail all the same. An error without a message says no more than
/// the output did (diff found something that matters).
using Run = std::function<Status(std::string& out)>;

/// Each adds a subcommand to `app`; when that is chosen, parsing stores what to do in `run`.
void add_accuracy(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_decay(CLI::App& app, Run& run);
void add_demo(CLI::App& app, Run& run);
void add_diff(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);
void add_permute(CLI::App& app, Run& run);
void add_plan(CLI::App& app, Run& run);
void add_plot(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_similarity(CLI::App& app, Run& run);
void add_table(CLI::App& app, Run& run);
void add_targets(CLI::App& app, Run& run);

}  // namespace phasor::cli
