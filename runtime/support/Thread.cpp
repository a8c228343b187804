//===- Thread.cpp ---------------------------------------------------------===//
#include "support/Thread.h"
#include "support/Error.h"

#include <atomic>
#include <pthread.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

using namespace pp::runtime;

static std::atomic<unsigned> untilFailure{0};

void pp::runtime::failThreadStart(unsigned count) { untilFailure = count; }

uint64_t pp::runtime::threadStackBytes() {
  pthread_attr_t attributes;
  size_t stack = 8 << 20, guard = 0;
  if (pthread_attr_init(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
  }
  return stack + guard;
}

namespace {
/// struct sched_attr of Linux, as it was first; C libraries often have none.
struct Scheduling {
  uint32_t size = sizeof(Scheduling);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0; // ns
};
} // namespace

void pp::runtime::askForShortTurns() {
  Scheduling scheduling;
  if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) != 0 ||
      scheduling.policy != SCHED_OTHER)
    return;
  scheduling.runtime = 100'000; // the least
  (void)syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

std::thread pp::runtime::startThread(const std::string &what,
                                     std::function<void()> body) {
  try {
    unsigned left = untilFailure;
    while (left && !untilFailure.compare_exchange_weak(left, left - 1))
      ;
    if (left == 1)
      throw std::system_error(
          std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::thread(std::move(body));
  } catch (const std::system_error &error) {
    throw Error(ErrorKind::IO,
                fmt::format("cannot start a thread for {}: {}; it needs {} "
                            "bytes of address space (ulimit -v, ulimit -s) and "
                            "one more thread (ulimit -u, the container's "
                            "limit)",
                            what, error.code().message(), threadStackBytes()));
  }
}
