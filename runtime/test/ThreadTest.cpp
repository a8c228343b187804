//===- ThreadTest.cpp - What threads ask of the system --------------------===//
#include "support/Thread.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace pp::runtime;

/// The number behind `key` in /proc of this thread; -1: there is none.
static double schedulingFact(const std::string &key) {
  std::ifstream file("/proc/thread-self/sched");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key))
      return std::stod(line.substr(line.find(':') + 1));
  return -1;
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
    EXPECT_TRUE(after == before || after == 100'000) << before << " " << after;
  }).join();
}
