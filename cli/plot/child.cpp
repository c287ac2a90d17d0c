// SPDX-License-Identifier: Apache-2.0
// Child processes by posix_spawn.
#include "plot/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

extern "C" char** environ;  // NOLINT(readability-redundant-declaration)

namespace phasor::cli {
namespace {

namespace files = std::filesystem;

/// The last line that says something: '"script" line 7: invalid palette option'.
std::string last_line(const std::string& words) {
  std::string last;
  std::string line;
  for (const char c : words + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.find_first_not_of(" ^\t") != std::string::npos) last = line;
    line.clear();
  }
  return last.empty() ? "no message" : last;
}

/// Starts the program; 0 or the error of the start.
int start(std::vector<std::string> arguments, const std::string& words, pid_t& child) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, words.c_str(), O_WRONLY | O_CREAT | O_APPEND, S_IRUSR | S_IWUSR);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int error = posix_spawnp(&child, pointers.front(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

WorkFolder::WorkFolder() {
  std::error_code error;
  std::string name = (files::temp_directory_path(error) / ("phasor-" + kUnique)).string();
  if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (made()) files::remove_all(path_, ignored);
}

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

Ended run_child(const std::vector<std::string>& arguments, const std::string& words) {
  pid_t child = 0;
  const int error = start(arguments, words, child);
  if (error == ENOENT) return {.found = false};
  if (error != 0) return {.message = std::strerror(error)};
  int state = 0;
  while (waitpid(child, &state, 0) < 0) {
    if (errno != EINTR) return {.message = std::strerror(errno)};
  }
  return {.good = WIFEXITED(state) && WEXITSTATUS(state) == 0, .message = last_line(contents(words))};
}

}  // namespace phasor::cli
