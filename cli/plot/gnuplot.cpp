// SPDX-License-Identifier: Apache-2.0
// gnuplot as a child process in a folder of its own: it sees no name that a user typed but inside quoted titles.
#include "plot/gnuplot.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

extern "C" char** environ;  // NOLINT(readability-redundant-declaration)

namespace phasor::cli {
namespace {

namespace files = std::filesystem;

const std::string kUnique(6, 'X');  // mkdtemp and mkstemp write a name of their own over it

/// A new folder, gone with everything in it at the end.
class WorkFolder {
 public:
  WorkFolder() {
    std::error_code error;
    std::string name = (files::temp_directory_path(error) / ("phasor-" + kUnique)).string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (made()) files::remove_all(path_, ignored);
  }
  bool made() const { return !path_.empty(); }
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  files::path path_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.flush();
  return file.good();
}

/// The last line gnuplot wrote that says something: '"script" line 7: invalid palette option'.
std::string complaint(const std::string& errors) {
  std::string last;
  std::string line;
  for (const char c : errors + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.find_first_not_of(" ^\t") != std::string::npos) last = line;
    line.clear();
  }
  return last.empty() ? "no message" : last;
}

/// Starts `gnuplot -d script`, its words going to the file `errors`; 0 or the error of the start.
int start(const std::string& script, const std::string& errors, pid_t& child) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, S_IRUSR | S_IWUSR);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "gnuplot";
  std::string no_settings = "-d";  // of the user
  std::string file = script;
  const std::array<char*, 4> arguments{program.data(), no_settings.data(), file.data(), nullptr};
  const int error = posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

Status run_gnuplot(const std::string& script, const std::string& errors) {
  pid_t child = 0;
  const int error = start(script, errors, child);
  if (error == ENOENT) {
    return Status::unsupported("plot: gnuplot is not installed, wanted it for every plot: install the package gnuplot-nox (or gnuplot)");
  }
  if (error != 0) return Status::unsupported(fmt::format("plot: gnuplot does not start: {}", std::strerror(error)));
  int state = 0;
  while (waitpid(child, &state, 0) < 0) {
    if (errno != EINTR) return Status::unsupported(fmt::format("plot: gnuplot was lost: {}", std::strerror(errno)));
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
  return Status::unsupported(fmt::format("plot: gnuplot failed: {}", complaint(contents(errors))));
}

}  // namespace

Result<std::string> draw(const Figure& figure, const Canvas& canvas) {
  const WorkFolder folder;
  if (!folder.made()) return Status::unsupported("plot: no folder for temporary files, wanted one that can be written");
  const std::string script = folder.file("script");
  const std::string drawing = folder.file("drawing");
  if (!write_plain(script, gnuplot_script(figure, canvas, drawing))) return Status::unsupported("plot: the script cannot be written");
  const Status status = run_gnuplot(script, folder.file("errors"));
  if (!status.ok()) return status;
  std::string drawn = contents(drawing);
  if (drawn.empty()) return Status::unsupported(fmt::format("plot: gnuplot drew nothing: {}", complaint(contents(folder.file("errors")))));
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
