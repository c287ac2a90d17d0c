// SPDX-License-Identifier: Apache-2.0
// gnuplot or matplotlib in a folder of its own: it sees no name that a user typed but inside quoted titles.
#include "plot/draw.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "plot/child.hpp"

namespace phasor::cli {
namespace {

/// Pythons that may have the package: the one that started this tool, the one beside it (of a virtual environment), the one on the PATH.
std::vector<std::string> pythons() {
  std::vector<std::string> found;
  if (const char* named = std::getenv("PHASOR_PYTHON"); named != nullptr && *named != '\0') found.emplace_back(named);
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) found.push_back((self.parent_path() / "python3").string());
  found.emplace_back("python3");
  return found;
}

/// By the first of these Pythons that is there: `found` is false where none is.
Ended run_matplotlib(const Figure& figure, const Canvas& canvas, const WorkFolder& folder) {
  const std::string numbers = folder.file("figure.json");
  if (!write_plain(numbers, to_json(figure))) return {.message = "the figure cannot be written"};
  for (const std::string& python : pythons()) {
    // -P: a folder named phasor where the user happens to be is not the package.
    Ended ended = run_child({python, "-P", "-m", "phasor._figure", numbers, folder.file("drawing"),
                             canvas.format == Format::png ? "png" : "svg", std::to_string(canvas.width), std::to_string(canvas.height)},
                            folder.file("words"));
    if (ended.found) return ended;
  }
  return {.found = false};
}

Status without_gnuplot(const Figure& figure, const Canvas& canvas, const WorkFolder& folder) {
  if (canvas.format == Format::text) {
    return Status::unsupported(
        "plot: gnuplot is not installed, wanted it to draw on the terminal: install the package gnuplot-nox (or gnuplot); "
        "--out FILE.svg or FILE.png can be drawn by Python's matplotlib");
  }
  const Ended ended = run_matplotlib(figure, canvas, folder);
  if (ended.good) return {};
  const std::string why = ended.found ? " (" + ended.message + ")" : "";
  return Status::unsupported(fmt::format(
      "plot: gnuplot is not installed, and no Python stands in for it{}, wanted one of the two: the package gnuplot-nox (or gnuplot), "
      "or matplotlib beside phasor's wheel (pip install matplotlib)",
      why));
}

Status run_drawing(const Figure& figure, const Canvas& canvas, const WorkFolder& folder) {
  const std::string script = folder.file("script");
  if (!write_plain(script, gnuplot_script(figure, canvas, folder.file("drawing")))) {
    return Status::unsupported("plot: the script cannot be written");
  }
  const Ended ended = run_child({"gnuplot", "-d", script}, folder.file("words"));  // -d: no settings of the user
  if (!ended.found) return without_gnuplot(figure, canvas, folder);
  return ended.good ? Status() : Status::unsupported(fmt::format("plot: gnuplot failed: {}", ended.message));
}

}  // namespace

Result<std::string> draw(const Figure& figure, const Canvas& canvas) {
  const WorkFolder folder;
  if (!folder.made()) return Status::unsupported("plot: no folder for temporary files, wanted one that can be written");
  const Status status = run_drawing(figure, canvas, folder);
  if (!status.ok()) return status;
  std::string drawn = contents(folder.file("drawing"));
  if (drawn.empty()) return Status::unsupported("plot: nothing was drawn, wanted a picture");
  return drawn;
}

Status write_file(const std::string& path, const std::string& bytes) {
  std::string temporary = path + "." + kUnique;
  const int made = mkstemp(temporary.data());
  const auto failed = [&](int error) {
    if (made >= 0) unlink(temporary.c_str());
    return Status::invalid(fmt::format("{}: {}, wanted to write there", path, std::strerror(error)));
  };
  if (made < 0) return failed(errno);
  close(made);
  errno = ENOSPC;  // what it mostly is when a stream does not say
  if (!write_plain(temporary, bytes)) return failed(errno);
  const mode_t mask = umask(0);
  umask(mask);
  constexpr mode_t kFile = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  if (chmod(temporary.c_str(), kFile & ~mask) != 0 || std::rename(temporary.c_str(), path.c_str()) != 0) return failed(errno);
  return {};
}

}  // namespace phasor::cli
