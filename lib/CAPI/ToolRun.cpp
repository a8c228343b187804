//===- ToolRun.cpp --------------------------------------------------------===//
#include "ToolRun.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

using namespace pp::capi;

[[noreturn]] static void fail(int code, const std::string &what) {
  throw std::system_error(code, std::generic_category(), what);
}

/// Beside the folder of this library, which may be lib, or a folder in it.
static std::string findTool(const std::string &name) {
  Dl_info library;
  std::error_code code;
  if (dladdr(reinterpret_cast<void *>(&runTool), &library)) {
    std::filesystem::path folder =
        std::filesystem::canonical(library.dli_fname, code).parent_path();
    for (const char *bin : {"bin", "../bin", "../../bin"})
      if (std::filesystem::path tool = folder / bin / name;
          access(tool.c_str(), X_OK) == 0)
        return tool;
  }
  return name; // on PATH
}

namespace {
/// A pipe whose ends are closed with it. Other processes do not inherit them.
class Pipe {
public:
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0)
      fail(errno, "cannot make a pipe");
  }
  ~Pipe() {
    closeEnd(0);
    closeEnd(1);
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;

  int reader() const { return ends[0]; }
  int writer() const { return ends[1]; }
  void closeWriter() { closeEnd(1); }
  bool isOpen() const { return ends[0] >= 0; }

  /// Appends what is there; at the end, closes the pipe.
  void read(std::string &text) {
    char buffer[1 << 14];
    ssize_t count = ::read(ends[0], buffer, sizeof(buffer));
    if (count > 0)
      text.append(buffer, count);
    else if (count == 0 || errno != EINTR)
      closeEnd(0);
  }

private:
  void closeEnd(int end) {
    if (ends[end] >= 0)
      close(ends[end]);
    ends[end] = -1;
  }
  int ends[2];
};

/// What the new process does with its standard streams.
class SpawnActions {
public:
  SpawnActions() { posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
  SpawnActions(const SpawnActions &) = delete;
  SpawnActions &operator=(const SpawnActions &) = delete;

  void openNull(int stream) {
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDONLY,
                                     0);
  }
  void replace(int stream, int file) {
    posix_spawn_file_actions_adddup2(&actions, file, stream);
  }
  const posix_spawn_file_actions_t *get() const { return &actions; }

private:
  posix_spawn_file_actions_t actions;
};
} // namespace

static int waitFor(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR)
      fail(errno, "cannot wait for a process");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

ToolRun pp::capi::runTool(const std::string &name,
                          std::vector<std::string> arguments) {
  std::string tool = findTool(name);
  arguments.insert(arguments.begin(), tool);
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  Pipe output, errors;
  SpawnActions actions;
  actions.openNull(STDIN_FILENO);
  actions.replace(STDOUT_FILENO, output.writer());
  actions.replace(STDERR_FILENO, errors.writer());
  pid_t process = 0;
  if (int code = posix_spawnp(&process, tool.c_str(), actions.get(), nullptr,
                              pointers.data(), environ))
    fail(code, "cannot run '" + tool + "'");
  output.closeWriter();
  errors.closeWriter();
  ToolRun run;
  while (output.isOpen() || errors.isOpen()) {
    // A negative number is left out.
    pollfd files[] = {{output.reader(), POLLIN, 0},
                      {errors.reader(), POLLIN, 0}};
    if (poll(files, 2, -1) < 0)
      continue;
    if (files[0].revents)
      output.read(run.output);
    if (files[1].revents)
      errors.read(run.errors);
  }
  run.exitCode = waitFor(process);
  return run;
}
