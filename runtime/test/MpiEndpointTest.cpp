//===- MpiEndpointTest.cpp - Messages and connections through MPI ---------===//
#include "process/MpiEndpoint.h"
#include "FakeMpi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace pp::runtime;
using namespace std::chrono_literals;

namespace {

Launch member(const std::string &job, unsigned process, unsigned processes) {
  Launch launch;
  launch.launcher = "test";
  launch.process = process;
  launch.processes = processes;
  launch.job = job;
  return launch;
}

std::string uniqueJob() {
  static unsigned number = 0;
  return fmt::format("mpi-test-{}", ++number);
}

/// Runs `work` in each process of a job, which all leave together.
void run(unsigned processes, const FakeMpi &mpi,
         const std::function<void(MpiEndpoint &)> &work) {
  std::string job = uniqueJob();
  std::vector<std::thread> threads;
  for (unsigned process = 0; process < processes; ++process)
    threads.emplace_back([&, process] {
      MpiEndpoint endpoint(fakeMpi(mpi), member(job, process, processes), 20);
      work(endpoint);
      endpoint.finish();
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// An operation that a thread waits for.
struct Awaited : MpiOperation {
  Awaited(bool send, unsigned other, uint32_t number,
          std::vector<char> &place) {
    isSend = send;
    peer = other;
    tag = number;
    data = place.data();
    bytes = place.size();
    onEnd = [this](const std::exception_ptr &error) {
      fault = error;
      hasEnded = true;
    };
  }
  /// What went wrong; empty: nothing.
  std::string wait(MpiEndpoint &endpoint) {
    while (!hasEnded) {
      endpoint.help();
      std::this_thread::yield();
    }
    try {
      if (fault)
        std::rethrow_exception(fault);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }
  std::exception_ptr fault;
  std::atomic<bool> hasEnded{false};
};

const FakeMpi variants[] = {
    {}, {.eagerBytes = 1 << 16}, {.threads = false, .mostBytes = 1000}};

class Mpi : public testing::TestWithParam<FakeMpi> {};
INSTANTIATE_TEST_SUITE_P(All, Mpi, testing::ValuesIn(variants),
                         [](const auto &info) {
                           return info.param.eagerBytes ? "Eager"
                                  : info.param.threads  ? "Rendezvous"
                                                        : "OneThread";
                         });

TEST_P(Mpi, LongMessagesInPieces) {
  run(2, GetParam(), [&](MpiEndpoint &endpoint) {
    unsigned other = 1 - endpoint.process();
    std::vector<size_t> sizes{0, 1, 1000, 1001, 123'457};
    // Pieces that MPI sends unasked, and longer ones.
    if (GetParam().threads)
      sizes.insert(sizes.end(), {20'000'001, 1 << 21, 34'000'001});
    for (size_t size : sizes) {
      std::vector<char> mine(size), theirs(size);
      std::iota(mine.begin(), mine.end(), char(endpoint.process()));
      Awaited receive(false, other, 5, theirs), send(true, other, 5, mine);
      endpoint.start(receive);
      endpoint.start(send);
      EXPECT_EQ(receive.wait(endpoint), "");
      EXPECT_EQ(send.wait(endpoint), "");
      std::iota(mine.begin(), mine.end(), char(other));
      EXPECT_EQ(theirs, mine) << size;
    }
  });
}

// Or values would gather in MPI's memory, as many as their sender makes.
TEST(MpiEndpoint, ALongMessageHasLeftWhenItIsReceived) {
  run(2, {.eagerBytes = 1 << 20}, [&](MpiEndpoint &endpoint) {
    unsigned other = 1 - endpoint.process();
    std::vector<char> shortOne(100), longOne(1 << 20);
    if (endpoint.process() == 0) {
      Awaited first(true, other, 5, longOne), second(true, other, 6, shortOne);
      endpoint.start(first);
      endpoint.start(second);
      EXPECT_EQ(second.wait(endpoint), "");
      EXPECT_FALSE(first.hasEnded);
      // Now the other one receives.
      Awaited mayReceive(true, other, 7, shortOne);
      endpoint.start(mayReceive);
      EXPECT_EQ(first.wait(endpoint), "");
      EXPECT_EQ(mayReceive.wait(endpoint), "");
    } else {
      std::vector<char> place(100);
      Awaited mayReceive(false, other, 7, place),
          second(false, other, 6, shortOne), first(false, other, 5, longOne);
      endpoint.start(mayReceive);
      EXPECT_EQ(mayReceive.wait(endpoint), "");
      endpoint.start(first);
      endpoint.start(second);
      EXPECT_EQ(first.wait(endpoint), "");
      EXPECT_EQ(second.wait(endpoint), "");
    }
  });
}

TEST_P(Mpi, ConnectionsWithoutAListenerEnd) {
  run(2, GetParam(), [&](MpiEndpoint &endpoint) {
    Socket socket = endpoint.connect(1 - endpoint.process());
    char byte = 0;
    EXPECT_THROW(socket.receive(&byte, 1), ConnectionClosed);
  });
}

/// Both sides send more than what may be on its way, before they receive.
TEST_P(Mpi, AConnectionHoldsBackWhatIsNotTaken) {
  size_t size = GetParam().threads ? 20'000'000 : 3'000'000;
  run(2, GetParam(), [&](MpiEndpoint &endpoint) {
    Listener listener(endpoint.getAddress());
    Socket socket;
    if (endpoint.process() == 0) {
      while (true) {
        socket = endpoint.connect(1);
        char byte = 0;
        try {
          socket.receive(&byte, 1);
          break;
        } catch (const ConnectionClosed &) {
          std::this_thread::sleep_for(1ms); // It does not listen yet.
        }
      }
    } else {
      socket =
          std::move(*listener.accept(std::chrono::steady_clock::now() + 20s));
      socket.send("x", 1);
    }
    std::vector<char> bytes(size), received(size);
    std::iota(bytes.begin(), bytes.end(), char(endpoint.process()));
    std::thread sender([&] { socket.send(bytes.data(), bytes.size()); });
    std::this_thread::sleep_for(50ms);
    socket.receive(received.data(), received.size());
    sender.join();
    std::iota(bytes.begin(), bytes.end(), char(1 - endpoint.process()));
    EXPECT_TRUE(received == bytes);
    // What was sent before the end arrives.
    if (endpoint.process() == 0) {
      socket.send("bye", 3);
    } else {
      socket.receive(received.data(), 3);
      EXPECT_THROW(socket.receive(received.data(), 1), ConnectionClosed);
    }
    socket = Socket();
  });
}

TEST_P(Mpi, WhatNobodySendsIsCancelled) {
  run(2, GetParam(), [&](MpiEndpoint &endpoint) {
    std::vector<char> place(5000), more(5000);
    Awaited one(false, 1 - endpoint.process(), 7, place),
        never(true, 1 - endpoint.process(), 8, more);
    endpoint.start(one);
    std::vector<MpiOperation *> all{&one, &never};
    EXPECT_TRUE(endpoint.cancel(all));
    EXPECT_FALSE(one.hasEnded);
  });
}

TEST_P(Mpi, AnotherLengthIsAnError) {
  FakeMpi mpi = GetParam();
  mpi.eagerBytes = 1000; // or the sender waits for a receive that there is not
  run(2, mpi, [&](MpiEndpoint &endpoint) {
    std::vector<char> place(endpoint.process() == 0 ? 50 : 70);
    Awaited message(endpoint.process() == 0, 1 - endpoint.process(), 3, place);
    endpoint.start(message);
    EXPECT_EQ(message.wait(endpoint),
              endpoint.process() == 0
                  ? ""
                  : "process 0 sent 50 bytes where 70 were expected");
  });
}

TEST(MpiEndpoint, TagsAreUsedAgain) {
  FakeMpi mpi;
  mpi.mostTag = 20;
  run(3, mpi, [](MpiEndpoint &endpoint) {
    unsigned peer = (endpoint.process() + 1) % 3,
             another = (endpoint.process() + 2) % 3;
    EXPECT_EQ(endpoint.reserveTags(peer, 5), 1U);
    EXPECT_EQ(endpoint.reserveTags(peer, 10), 6U);
    EXPECT_EQ(endpoint.reserveTags(another, 10), 1U);
    EXPECT_EQ(endpoint.reserveTags(peer, 5), 16U);
    EXPECT_THROW(endpoint.reserveTags(peer, 1), Error);
    endpoint.releaseTags(peer, 6);
    EXPECT_EQ(endpoint.reserveTags(peer, 4), 6U);
    EXPECT_EQ(endpoint.reserveTags(peer, 6), 10U);
    EXPECT_THROW(endpoint.reserveTags(peer, 1), Error);
  });
}

TEST(MpiEndpointErrors, WhatTheWireSays) {
  FakeMpi mpi;
  mpi.broken = 1;
  std::string job = uniqueJob();
  std::thread other(
      [&] { MpiEndpoint endpoint(fakeMpi(mpi), member(job, 1, 2), 20); });
  MpiEndpoint endpoint(fakeMpi(mpi), member(job, 0, 2), 20);
  std::vector<char> place(50);
  Awaited message(true, 1, 3, place);
  endpoint.start(message);
  EXPECT_EQ(message.wait(endpoint), "MPI: the wire is cut");
  other.join();
}

TEST(MpiEndpointErrors, AnotherMpiThanTheLaunchers) {
  FakeMpi mpi;
  mpi.processes = 1;
  std::thread other;
  std::string job = uniqueJob();
  auto join = [&](unsigned process) {
    try {
      MpiEndpoint endpoint(fakeMpi(mpi), member(job, process, 2), 20);
      ADD_FAILURE();
    } catch (const Error &error) {
      EXPECT_EQ(error.getKind(), ErrorKind::Usage);
      EXPECT_NE(
          std::string(error.what())
              .find(fmt::format(
                  "test says process {} of 2, but MPI (a fake) says process "
                  "{} of 1: the plugin was built with another MPI",
                  process, process)),
          std::string::npos)
          << error.what();
    }
  };
  other = std::thread([&] { join(1); });
  join(0);
  other.join();
}

TEST(MpiEndpointErrors, WhoDoesNotJoin) {
  auto start = std::chrono::steady_clock::now();
  try {
    MpiEndpoint endpoint(fakeMpi(), member(uniqueJob(), 0, 2), 0.2);
    ADD_FAILURE();
  } catch (const Error &error) {
    EXPECT_EQ(error.getKind(), ErrorKind::IO);
    EXPECT_NE(
        std::string(error.what())
            .find("did not join the MPI job within 0.2 s (--join-timeout)"),
        std::string::npos)
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(MpiEndpointErrors, WithoutAPlugin) {
  try {
    MpiEndpoint::loadPlugin("/nowhere/libpp_mpi.so");
    ADD_FAILURE();
  } catch (const Error &error) {
    EXPECT_EQ(error.getKind(), ErrorKind::Usage);
    EXPECT_NE(std::string(error.what())
                  .find("build it with "
                        "scripts/build-mpi-plugin"),
              std::string::npos)
        << error.what();
  }
}

} // namespace
