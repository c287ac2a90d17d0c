// SPDX-License-Identifier: Apache-2.0
// What a command of the tool is: options it adds to the parser, and a function that makes its output.
#pragma once

#include <functional>
#include <string>

#include "parser.hpp"
#include "phasor/result.hpp"

namespace phasor::cli {

/// Appends the output to `out`; a failed check may have output and fail all the same. An error without a message says no more than
/// the output did (diff found something that matters).
using Run = std::function<Status(std::string& out)>;

/// Each adds a subcommand to `tool`; when that is chosen, parsing stores what to do in `run`.
void add_accuracy(const Command& tool, Run& run);
void add_bench(const Command& tool, Run& run);
void add_decay(const Command& tool, Run& run);
void add_demo(const Command& tool, Run& run);
void add_diff(const Command& tool, Run& run);
void add_explain(const Command& tool, Run& run);
void add_export(const Command& tool, Run& run);
void add_permute(const Command& tool, Run& run);
void add_plan(const Command& tool, Run& run);
void add_playground(const Command& tool, Run& run);
void add_plot(const Command& tool, Run& run);
void add_report(const Command& tool, Run& run);
void add_similarity(const Command& tool, Run& run);
void add_table(const Command& tool, Run& run);
void add_targets(const Command& tool, Run& run);

}  // namespace phasor::cli
