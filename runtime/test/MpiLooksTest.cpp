//===- MpiLooksTest.cpp - When MPI's thread looks -------------------------===//
#include "process/MpiLooks.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace pp::runtime;
using Pace = MpiLooks::Pace;

namespace {

/// A descriptor that is ready from set() to clear().
class Event {
public:
  Event() : descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Event() { close(descriptor); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  void set() {
    uint64_t one = 1;
    EXPECT_EQ(write(descriptor, &one, sizeof(one)), 8);
  }
  void clear() {
    uint64_t count = 0;
    EXPECT_EQ(read(descriptor, &count, sizeof(count)), 8);
  }
  int get() const { return descriptor; }

private:
  int descriptor;
};

/// An MPI that learns of what comes from epoll, or not.
class MpiLooksTest : public testing::Test {
protected:
  void start(bool hasEpoll) {
    looks.beforeStart();
    if (hasEpoll) {
      instance = epoll_create1(EPOLL_CLOEXEC);
      epoll_event interest{};
      interest.events = EPOLLIN;
      EXPECT_EQ(epoll_ctl(instance, EPOLL_CTL_ADD, network.get(), &interest),
                0);
    }
    looks.afterStart();
  }
  ~MpiLooksTest() override {
    if (instance >= 0)
      close(instance);
  }
  /// Whether the first descriptor ended it.
  bool wait(Pace pace) {
    std::vector<pollfd> entries{{wakeUp.get(), POLLIN, 0},
                                {other.get(), POLLIN, 0}};
    return looks.wait(entries, pace);
  }
  /// A message that was told comes.
  void bring(Pace pace) {
    network.set();
    EXPECT_FALSE(wait(pace));
    network.clear();
    looks.note(/*haveCome=*/true);
    looks.restart();
  }

  MpiLooks looks;
  Event wakeUp, other, network;
  int instance = -1;
};

} // namespace

TEST_F(MpiLooksTest, EpollTells) {
  start(/*hasEpoll=*/true);
  EXPECT_FALSE(looks.areTold());
  for (int i = 0; i < 20; ++i)
    bring(i % 2 ? Pace::Moving : Pace::Awaited);
  EXPECT_TRUE(looks.areTold());
}

TEST_F(MpiLooksTest, WhatIsNotToldIsLookedFor) {
  start(/*hasEpoll=*/true);
  for (int i = 0; i < 20; ++i)
    bring(Pace::Moving);
  // Some messages come another way: through shared memory, say.
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(wait(Pace::Moving));
    looks.note(/*haveCome=*/true);
    looks.restart();
  }
  EXPECT_FALSE(looks.areTold());
}

TEST_F(MpiLooksTest, LooksWithoutMessagesSayNothing) {
  start(/*hasEpoll=*/true);
  for (int i = 0; i < 20; ++i)
    bring(Pace::Moving);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(wait(Pace::Idle));
    looks.note(/*haveCome=*/false);
  }
  EXPECT_TRUE(looks.areTold());
}

TEST_F(MpiLooksTest, NobodyTellsWithoutEpoll) {
  start(/*hasEpoll=*/false);
  for (int i = 0; i < 20; ++i)
    bring(Pace::Awaited);
  EXPECT_FALSE(looks.areTold());
}

TEST_F(MpiLooksTest, OthersEndAWait) {
  start(/*hasEpoll=*/true);
  for (Pace pace : {Pace::Awaited, Pace::Moving, Pace::Idle}) {
    other.set();
    EXPECT_FALSE(wait(pace));
    other.clear();
    wakeUp.set();
    EXPECT_TRUE(wait(pace));
    // It is said once, also where MPI has news at the same time.
    network.set();
    EXPECT_TRUE(wait(pace));
    wakeUp.clear();
    EXPECT_FALSE(wait(pace));
    network.clear();
  }
}

// Something that MPI never takes must not keep a core busy.
TEST_F(MpiLooksTest, WhatIsNeverTakenDoesNotKeepItAwake) {
  start(/*hasEpoll=*/true);
  network.set();
  constexpr int more = 20;
  std::chrono::steady_clock::time_point begin;
  for (int i = 0; i < 1000 + more; ++i) {
    if (i == 1000)
      begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(wait(Pace::Awaited));
    looks.note(/*haveCome=*/false);
  }
  // From now on it pauses as if nobody told.
  EXPECT_GE(std::chrono::steady_clock::now() - begin,
            more * std::chrono::microseconds(20));
  network.clear();
}
