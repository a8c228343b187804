//===- ThreadTest.cpp - What threads ask of the system --------------------===//
#include "support/Thread.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

using namespace pp::runtime;

/// The number behind `key` in /proc of this thread; -1: there is none.
static double schedulingFact(const std::string &key) {
  std::ifstream file("/proc/thread-self/sched");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key))
      return std::stod(line.substr(line.find(':') + 1));
  return -1;
}

static bool hasOwnTurns() {
  utsname system{};
  int major = 0, minor = 0;
  return uname(&system) == 0 &&
         std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         std::pair(major, minor) >= std::pair(6, 12);
}
/// Whether this thread may set what it has already.
static bool askWorks() {
  std::array<uint64_t, 7> attributes{};
  return syscall(SYS_sched_getattr, 0, attributes.data(), 48, 0) == 0 &&
         syscall(SYS_sched_setattr, 0, attributes.data(), 0) == 0;
}

TEST(ThreadTest, ShortTurnsLeaveTheRestAsItWas) {
  startThread("a test", [] {
    const int nice = getpriority(PRIO_PROCESS, gettid());
    const double policy = schedulingFact("policy");
    const double before = schedulingFact("se.slice");
    askForShortTurns();
    EXPECT_EQ(getpriority(PRIO_PROCESS, gettid()), nice);
    EXPECT_EQ(schedulingFact("policy"), policy);
    const double after = schedulingFact("se.slice");
    // Older kernels have one length for all, and containers may refuse.
    if (hasOwnTurns() && before >= 0 && askWorks())
      EXPECT_EQ(after, 100'000);
    else
      EXPECT_EQ(after, before);
  }).join();
}
