//===- Fork.cpp -----------------------------------------------------------===//
#include "process/Fork.h"
#include "support/Error.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace pp::runtime;

static std::vector<pid_t> children;

static void passOn(int signal) {
  for (pid_t child : children)
    if (child)
      kill(child, signal);
}

/// Waits for all; whoever is left behind by one that was killed finds out by
/// itself.
static int waitForAll() {
  int result = 0;
  for (size_t left = children.size(); left;) {
    int status = 0;
    pid_t ended = wait(&status);
    if (ended < 0 && errno == EINTR)
      continue;
    if (ended < 0)
      failIO("wait");
    --left;
    for (pid_t &child : children)
      if (child == ended)
        child = 0; // its number may be another's by now
    int code = WIFEXITED(status) ? WEXITSTATUS(status)
                                 : static_cast<int>(ErrorKind::Internal);
    if (WIFSIGNALED(status))
      fmt::print(stderr, "error: a process (pid {}) was ended by signal {}\n",
                 ended, WTERMSIG(status));
    if (result == 0)
      result = code;
  }
  return result;
}

Forked pp::runtime::forkProcesses(unsigned count) {
  pid_t parent = getpid();
  std::fflush(nullptr);
  for (unsigned process = 0; process < count; ++process) {
    pid_t child = fork();
    if (child < 0) {
      passOn(SIGKILL);
      failIO("fork");
    }
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    // A terminal's Ctrl-C shall reach each once, by the parent.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(static_cast<int>(ErrorKind::Internal));
    children.clear();
    Forked result;
    result.launch = {"--processes",
                     process,
                     count,
                     process,
                     count,
                     fmt::format("unix:pp-mlir-{}-fork-{}", geteuid(), parent),
                     fmt::format("fork-{}", parent)};
    return result;
  }
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, passOn);
  Forked result;
  result.exitCode = waitForAll();
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, SIG_DFL);
  children.clear();
  return result;
}
