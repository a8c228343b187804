//===- Fork.cpp -----------------------------------------------------------===//
#include "process/Fork.h"
#include "process/Secret.h"
#include "support/Error.h"
#include "support/Print.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;

// Signals to the command that the processes get.
static constexpr int passedOn[] = {SIGINT, SIGTERM, SIGHUP};

/// Not a hangup that the command ignores, as nohup has it do: then they do too.
static void addPassedOn(sigset_t &signals) {
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  for (int signal : passedOn)
    if (signal != SIGHUP || hangup.sa_handler != SIG_IGN)
      sigaddset(&signals, signal);
}

// After one has failed, the others find out by themselves within 2 seconds or
// their watchdog's time. Then they are asked to end, and then made to.
using std::chrono::milliseconds;
static constexpr milliseconds grace(6000), lastGrace(2000), shortGrace(500);

namespace {
struct Child {
  pid_t pid;
  unsigned process;
  int stoppedBy = 0; // a signal
};

/// The calling process, which waits for the others.
class Parent {
public:
  Parent(std::vector<Child> children, const std::atomic<unsigned> &met)
      : children(std::move(children)), count(this->children.size()), met(met) {}
  /// Waits for all; returns the exit code of the first that failed, or 0. One
  /// that was ended by a signal counts as the first.
  int wait();

private:
  /// Handles what has become of the children so far.
  void reap();
  void handleEnd(const Child &child, int status);
  /// Ends those that do not end by themselves although one has failed.
  void hurry();
  void handleSignal(int signal);
  void send(int signal) {
    for (const Child &child : children)
      kill(child.pid, signal);
  }
  /// One that is stopped would not notice anything.
  void wakeStopped();

  std::vector<Child> children; // that have not ended
  size_t count;
  const std::atomic<unsigned> &met;
  int result = 0;
  bool hasFailed = false, isTerminated = false, isKilled = false;
  bool isSignalled = false; // the children were, by hurry() or handleSignal()
  int lastSignal = 0;       // that the command got
  Clock::time_point nextStep = Clock::time_point::max(); // of hurry()
};
} // namespace

void Parent::wakeStopped() {
  for (Child &child : children)
    if (child.stoppedBy) {
      printMessage(
          "note: process {} (pid {}) was stopped by signal {}; it goes "
          "on, to end with the others\n",
          child.process, child.pid, child.stoppedBy);
      child.stoppedBy = 0;
      kill(child.pid, SIGCONT);
    }
}

void Parent::handleEnd(const Child &child, int status) {
  int code = WIFEXITED(status) ? WEXITSTATUS(status)
                               : static_cast<int>(ErrorKind::Internal);
  // Whoever was made to end says nothing new.
  bool wasSignalled = isSignalled || isKilled;
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal && signal == lastSignal)
    code = 128 + signal;
  else if (signal && !wasSignalled) {
    printMessage("error: process {} (pid {}) was ended by signal {}\n",
                 child.process, child.pid, signal);
    // Others may have failed of it and be seen first.
    result = code;
  }
  if (code == 0 || hasFailed)
    return;
  result = code;
  hasFailed = true;
  // Who still waits for the others to come may not notice.
  isTerminated = met.load() < count;
  nextStep = Clock::now() + (isTerminated ? shortGrace : grace);
}

void Parent::reap() {
  int status = 0;
  while (pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) {
    if (pid < 0 && errno == EINTR)
      continue;
    if (pid < 0)
      break;
    auto it =
        std::find_if(children.begin(), children.end(),
                     [&](const Child &child) { return child.pid == pid; });
    if (it == children.end())
      continue;
    if (WIFSTOPPED(status)) {
      it->stoppedBy = WSTOPSIG(status);
    } else if (WIFCONTINUED(status)) {
      it->stoppedBy = 0;
    } else {
      Child child = *it;
      children.erase(it); // its number may be another's by now
      handleEnd(child, status);
    }
  }
}

void Parent::hurry() {
  wakeStopped();
  if (Clock::now() < nextStep || isKilled)
    return;
  nextStep = Clock::now() + lastGrace;
  isKilled = isTerminated;
  for (const Child &child : children)
    if (isKilled)
      printMessage("note: process {} (pid {}) does not end and is killed\n",
                   child.process, child.pid);
  send(isKilled ? SIGKILL : SIGTERM);
  isTerminated = isSignalled = true;
}

void Parent::handleSignal(int signal) {
  send(signal);
  isSignalled = true;
  wakeStopped();
  // The first asks for an orderly end, which may take the time of a step and a
  // snapshot. Who asks again wants the end.
  bool isFirst = lastSignal == 0;
  lastSignal = signal;
  if (isFirst && !hasFailed)
    return;
  if (!hasFailed)
    result = 128 + signal;
  hasFailed = isTerminated = true;
  nextStep = std::min(nextStep, Clock::now() + lastGrace);
}

int Parent::wait() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  addPassedOn(signals);
  while (true) {
    reap();
    if (children.empty())
      return result;
    if (hasFailed)
      hurry();
    timespec pause{0, 50'000'000};
    int signal = hasFailed ? sigtimedwait(&signals, nullptr, &pause)
                           : sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD)
      handleSignal(signal);
  }
}

/// Memory that the calling process and the new ones share: how many of them
/// have met.
static std::atomic<unsigned> *shareCounter() {
  void *place = mmap(nullptr, sizeof(std::atomic<unsigned>),
                     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED)
    failIO("cannot map memory for several processes");
  return new (place) std::atomic<unsigned>(0);
}

Forked pp::runtime::forkProcesses(unsigned count) {
  pid_t parent = getpid();
  std::atomic<unsigned> *met = shareCounter();
  // The new ones inherit it, and nobody else ever sees it.
  std::string secret = makeSecret();
  std::string address =
      fmt::format("unix:pp-mlir-{}-{}", geteuid(), makeSecret().substr(0, 16));
  std::fflush(nullptr);
  // The parent waits for them.
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  addPassedOn(blocked);
  std::signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  std::vector<Child> children;
  for (unsigned process = 0; process < count; ++process) {
    pid_t child = fork();
    if (child < 0) {
      int code = errno;
      for (const Child &started : children)
        kill(started.pid, SIGKILL);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      errno = code;
      failIO(fmt::format("cannot start process {} of {}", process, count));
    }
    if (child > 0) {
      children.push_back({child, process});
      continue;
    }
    // A terminal's Ctrl-C shall reach each once, by the parent.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(static_cast<int>(ErrorKind::Internal));
    sigprocmask(SIG_SETMASK, &before, nullptr);
    Forked result;
    Launch &launch = result.launch;
    launch.launcher = "--processes";
    launch.process = launch.localProcess = process;
    launch.processes = launch.localProcesses = count;
    launch.address = address;
    launch.job = fmt::format("fork-{}", parent);
    launch.secret = secret;
    launch.onMet = [met] { ++*met; };
    return result;
  }
  Forked result;
  result.exitCode = Parent(std::move(children), *met).wait();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return result;
}
