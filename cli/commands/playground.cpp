// SPDX-License-Identifier: Apache-2.0
// phasor playground: opens the page that shows what positions do, a single file that was installed beside the tool.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "command.hpp"
#include "plot/child.hpp"

namespace phasor::cli {
namespace {

namespace files = std::filesystem;

/// bin/phasor has it in share/phasor/playground, wherever both were put: a prefix, a package, an environment of Python.
files::path page_beside_tool() {
  std::error_code error;
  const files::path tool = files::read_symlink("/proc/self/exe", error);
  return (tool.parent_path() / ".." / "share" / "phasor" / "playground" / "phasor-playground.html").lexically_normal();
}

Status open_page(const std::string& page) {
  const WorkFolder folder;
  if (!folder.made()) return Status::unsupported("no temporary folder can be made, wanted one for what the browser says");
  const Ended ended = run_child({"xdg-open", page}, folder.file("words"));
  if (!ended.found) return Status::unsupported("xdg-open is not there: open the file above in a browser");
  if (!ended.good) return Status::unsupported(fmt::format("xdg-open cannot open it ({}): open the file above in a browser", ended.message));
  return {};
}

Status run_playground(bool only_path, std::string& out) {
  const files::path page = page_beside_tool();
  std::error_code error;
  if (!files::is_regular_file(page, error)) {
    return Status::not_found(fmt::format(
        "{}: is not there: this tool was installed without the playground's page, which takes Emscripten to build. In a checkout: "
        "make playground, then make install, or open build/playground/site/phasor-playground.html",
        page.string()));
  }
  out = page.string() + "\n";
  return only_path ? Status() : open_page(page.string());
}

}  // namespace

void add_playground(const Command& tool, Run& run) {
  const Command command = tool.subcommand("playground", "Opens the playground in a browser: what positions do, with these numbers");
  const auto only_path = std::make_shared<bool>(false);
  command.flag("--print-path", *only_path, "Print where the page is, open nothing");
  command.footer(
      "The page is one file that needs no network and sends nothing; it may be copied anywhere.\n\n"
      "Example:\n  phasor playground\n  cp \"$(phasor playground --print-path)\" .");
  command.chosen([only_path, &run] { run = [only_path](std::string& out) { return run_playground(*only_path, out); }; });
}

}  // namespace phasor::cli
