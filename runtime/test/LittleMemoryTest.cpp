//===- LittleMemoryTest.cpp - Threads and memory that are not there -------===//
#include "DeviceSetup.h"
#include "TestFiles.h"
#include "ToyProgram.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"
#include "support/AddressSpace.h"
#include "support/Thread.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

using namespace pp::runtime;

namespace {

std::string errorOf(const std::function<void()> &work) {
  try {
    work();
  } catch (const Error &error) {
    EXPECT_EQ(error.getKind(), ErrorKind::IO);
    return error.what();
  }
  return "";
}

/// Every thread that an executor starts may be the one too many: whoever has
/// started before waits for steps, and has to end.
TEST(LittleMemory, AnyThreadMayBeMissing) {
  for (const char *name : {"cpu", "mock"}) {
    DeviceSetup setup{name, name};
    unsigned failures = 0;
    for (unsigned nth = 1;; ++nth) {
      toy::Binary binary(toy::Options{{0, 1, 2}});
      TestedDevice device(setup);
      Program program(binary.training, device);
      program.allocate("");
      failThreadStart(nth);
      std::string error = errorOf([&] {
        Executor::Options options;
        options.watchdogSeconds = 60;
        Executor executor(program, options);
        failThreadStart(0);
        Step step(program.getPlan());
        step.scalars =
            OptimizerScalars(program.getPlan().optimizer).evaluate(1);
        executor.run(step);
      });
      failThreadStart(0);
      if (error.empty())
        break;
      ++failures;
      EXPECT_NE(error.find("cannot start a thread for"), std::string::npos)
          << error;
    }
    // Three ranks and the watchdog; on the mock device also their streams.
    EXPECT_EQ(failures, setup.device == "mock" ? 13U : 4U);
  }
}

TEST(LittleMemory, TheMessageSaysHowMuchIsNeeded) {
  EXPECT_EQ(errorOf([] { requireAddressSpace(UINT64_MAX / 2, "all"); }), "");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limited = before;
  // All that there are: an instrumented program takes most of them.
  limited.rlim_cur = uint64_t(1) << 47;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  std::string fits = errorOf([] { requireAddressSpace(1 << 20, "little"); });
  std::string error =
      errorOf([] { requireAddressSpace(uint64_t(1) << 48, "the model"); });
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(fits, "");
  EXPECT_NE(error.find("the model needs 274877906944 kB beside the"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("ulimit -v allows 137438953472 kB"), std::string::npos);
}

} // namespace
