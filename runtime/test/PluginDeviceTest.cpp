//===- PluginDeviceTest.cpp - The C table behind the device interfaces ----===//
#include "device/PluginDevice.h"
#include "ToyProgram.h"
#include "cpu/LibraryKernel.h"
#include "device/OpenDevice.h"
#include "program/Program.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace pp::runtime;

namespace {

/// The error that `work` throws.
template <typename Work> Error catchError(Work work) {
  try {
    work();
  } catch (const Error &e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::Internal, "");
}

void expectText(const Error &error, ErrorKind kind, const char *text) {
  EXPECT_EQ(error.getKind(), kind) << error.what();
  EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
      << error.what();
}

TEST(LoadPlugin, AFileThatIsMissingIsAnErrorThatSaysWhatToDo) {
  Error error = catchError([] { loadPlugin("/nonexistent/libpp_cuda.so"); });
  expectText(error, ErrorKind::Usage, "scripts/build-cuda-plugin");
  expectText(error, ErrorKind::Usage, "/nonexistent/libpp_cuda.so");
}

TEST(LoadPlugin, AnotherLibraryIsNoPlugin) {
  expectText(catchError([] { loadPlugin("libm.so.6"); }), ErrorKind::Usage,
             "is not the CUDA plugin");
}

TEST(LoadPlugin, AnotherVersionIsAnErrorThatNamesBoth) {
  expectText(catchError([] { loadPlugin(PP_OLD_PLUGIN); }), ErrorKind::Usage,
             "has ABI version 0, this program needs 2");
}

TEST(LoadPlugin, TheVariableNamesThePlugin) {
  setenv("PP_CUDA_PLUGIN", PP_FAKE_PLUGIN, 1);
  EXPECT_EQ(loadPlugin().abi_version, unsigned(PP_DEVICE_ABI_VERSION));
  unsetenv("PP_CUDA_PLUGIN");
}

TEST(OpenDevice, NamesAreCheckedAndNumbersHandedOn) {
  toy::Binary binary(toy::Options{});
  setenv("PP_CUDA_PLUGIN", PP_FAKE_PLUGIN, 1);
  for (const char *name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu"})
    expectText(catchError([&] { openDevice(name, binary.training); }),
               ErrorKind::Usage, "expected");
  expectText(catchError([&] { openDevice("cuda:1", binary.training); }),
             ErrorKind::Usage, "the fake plugin has one device");
  EXPECT_EQ(openDevice("cuda", binary.training)->getName(), "cuda:0");
  EXPECT_EQ(openDevice("", binary.training)->getName(), "cpu");
  unsetenv("PP_CUDA_PLUGIN");
}

class PluginDeviceTest : public testing::Test {
protected:
  std::unique_ptr<Device> device =
      openPluginDevice(loadPlugin(PP_FAKE_PLUGIN), 0, "fake:0");
  std::unique_ptr<Stream> stream = device->createStream();
};

TEST_F(PluginDeviceTest, MemoryIsZeroedAndRefusalsNameTheirSubject) {
  DeviceMemory memory = device->allocate(100, "stage 'a'");
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(memory.get()[i], 0);
  expectText(
      catchError([&] { device->allocate(uint64_t(1) << 50, "stage 'a'"); }),
      ErrorKind::IO, "stage 'a': that is too much");
}

TEST_F(PluginDeviceTest, CountersGoOnWhereTheyWere) {
  DeviceCounter counter = device->createCounter();
  stream->count(*counter);
  stream->count(*counter);
  EXPECT_EQ(counter->load(), 2u);
  auto other = device->createStream();
  other->count(*counter);
  EXPECT_EQ(counter->load(), 3u);
}

TEST_F(PluginDeviceTest, GraphsKeepKernelsAndRunThemAgain) {
  toy::Binary binary(toy::Options{});
  auto program = device->load(binary.training);
  std::string error;
  EXPECT_EQ(program->createKernel({"nonsense", 0}, error), nullptr);
  EXPECT_EQ(error, "kernel 'nonsense': the fake plugin has only 'add'");
  auto kernel = program->createKernel({"add bytes=2", 0}, error);
  ASSERT_TRUE(kernel);
  char from[2] = {1, 2}, to[2] = {10, 20};
  void *tensors[] = {from, to};
  auto work = [&] { pp_execute_kernel(kernel.get(), tensors, nullptr); };
  stream->execute(work);
  EXPECT_EQ(to[1], 22);
  stream->beginCapture();
  stream->execute(work);
  EXPECT_EQ(to[1], 22);
  expectText(catchError([&] { stream->clear(to, 2); }), ErrorKind::Internal,
             "captured");
  auto graph = stream->endCapture();
  stream->launch(*graph);
  stream->launch(*graph);
  EXPECT_EQ(to[0], 13);
  EXPECT_EQ(to[1], 26);
  EXPECT_EQ(takeKernelError(), "");
}

TEST_F(PluginDeviceTest, WorkReadsWhatItsKernelsWrite) {
  toy::Binary binary(toy::Options{});
  auto program = device->load(binary.training);
  std::string error;
  auto kernel = program->createKernel({"add bytes=2", 0}, error);
  ASSERT_TRUE(kernel);
  char from[2] = {1, 2}, to[2] = {10, 20}, seen[2] = {};
  void *tensors[] = {from, to};
  stream->execute([&] {
    pp_execute_kernel(kernel.get(), tensors, nullptr);
    stream->read(seen, to, 2);
    EXPECT_EQ(seen[0], 11);
    EXPECT_EQ(seen[1], 22);
  });
  EXPECT_EQ(takeKernelError(), "");
}

TEST_F(PluginDeviceTest, AKernelThatFailsLeavesItsText) {
  toy::Binary binary(toy::Options{});
  auto program = device->load(binary.training);
  std::string error;
  auto kernel = program->createKernel({"add bytes=2", 0}, error);
  ASSERT_TRUE(kernel);
  pp_execute_kernel(kernel.get(), nullptr, nullptr);
  EXPECT_EQ(takeKernelError(),
            "kernel 'add bytes=2': executed outside of a stream");
  // What the work throws goes through, and the stream is left.
  EXPECT_THROW(stream->execute([] { throw std::runtime_error("work"); }),
               std::runtime_error);
  pp_execute_kernel(kernel.get(), nullptr, nullptr);
  EXPECT_NE(takeKernelError(), "");
}

TEST_F(PluginDeviceTest, AProgramOfAnotherTargetIsRefused) {
  auto json = toy::trainingPlan({});
  json["target"] = "cuda:sm_90";
  toy::Binary binary({0}, json, toy::inferencePlan({0}));
  expectText(catchError([&] { Program program(binary.training, *device); }),
             ErrorKind::Usage, "fake:0: the model was compiled for cuda:sm_90");
}

} // namespace
