//===- Print.cpp ----------------------------------------------------------===//
#include "support/Print.h"
#include "support/Error.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <utility>

using namespace pp::runtime;

static std::atomic<int> failure{0};

void pp::runtime::prepareStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      // The lowest number that is free, which is this one.
      (void)open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  failure = 0;
}

static void keepFailure() noexcept {
  int none = 0;
  failure.compare_exchange_strong(none, errno ? errno : EIO);
}

void pp::runtime::writeOutput(std::string_view text) noexcept {
  // What was lost stays lost, and a pipe's reader does not come back.
  if (failure)
    return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    keepFailure();
}

// A handler may cause messages of its own.
static std::recursive_mutex handlerMutex;
static std::function<void(std::string_view)> messageHandler;

void pp::runtime::setMessageHandler(
    std::function<void(std::string_view)> handler) {
  std::lock_guard lock(handlerMutex);
  messageHandler = std::move(handler);
}

void pp::runtime::writeMessage(std::string_view text) noexcept {
  std::lock_guard lock(handlerMutex);
  if (messageHandler)
    return messageHandler(text);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

int pp::runtime::outputFailure() noexcept { return failure; }

void pp::runtime::requireOutput() {
  errno = 0;
  if (std::fflush(stdout) != 0)
    keepFailure();
  if (failure) {
    errno = failure;
    failIO("cannot write the standard output");
  }
}
