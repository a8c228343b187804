//===- CudaPluginTest.cpp - libpp_cuda.so on a driver without a GPU -------===//
#include "ToyProgram.h"
#include "core/Plan.h"
#include "cpu/LibraryKernel.h"
#include "device/PluginDevice.h"
#include "support/Clock.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>

using namespace pp::runtime;

namespace {

std::unique_ptr<Device> openCuda(unsigned number = 0) {
  // The plugin asks for them by their sonames.
  for (const char *library :
       {PP_FAKE_DRIVER, PP_FAKE_NVRTC, PP_FAKE_BLAS, PP_FAKE_NCCL})
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL))
      throw std::runtime_error(dlerror());
  return openPluginDevice(loadPlugin(PP_CUDA_PLUGIN_FILE), number, "cuda:0");
}

template <typename Work> std::string messageOf(Work work) {
  try {
    work();
  } catch (const Error &e) {
    return e.what();
  }
  return "no error";
}

void expectIn(const std::string &text, const char *part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

class CudaPluginTest : public testing::Test {
protected:
  std::unique_ptr<Device> device = openCuda();
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Event> event = device->createEvent();

  void wait() {
    stream->record(*event);
    event->synchronize();
  }

  std::unique_ptr<DeviceProgram> load(const char *cubin, const char *ptx) {
    code = {cubin, cubin ? std::strlen(cubin) : 0, ptx,
            ptx ? std::strlen(ptx) : 0};
    pp_program program{};
    program.device_code = &code;
    return device->load(program);
  }
  pp_device_code code{};

  std::unique_ptr<Kernel> create(DeviceProgram &program,
                                 const std::string &descriptor) {
    std::string error;
    auto kernel = program.createKernel({descriptor, 0}, error);
    EXPECT_TRUE(kernel) << error;
    return kernel;
  }
  std::string refuse(DeviceProgram &program, const std::string &descriptor) {
    std::string error;
    EXPECT_FALSE(program.createKernel({descriptor, 0}, error));
    return error;
  }
};

TEST_F(CudaPluginTest, ItIsADeviceWithGraphsAndMemoryOfItsOwn) {
  EXPECT_FALSE(device->isHostMemory());
  EXPECT_TRUE(device->hasGraphs());
  EXPECT_TRUE(device->runs("cuda:sm_90"));
  EXPECT_FALSE(device->runs("cpu"));
  expectIn(messageOf([] { openCuda(7); }),
           "there is no GPU number 7: this machine has 1");
}

TEST_F(CudaPluginTest, MemoryIsZeroedAndItsLackIsExplained) {
  DeviceMemory memory = device->allocate(1000, "stage 'a'");
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(memory.get()[i], 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
  expectIn(messageOf([&] { device->allocate(uint64_t(1) << 50, "stage 'a'"); }),
           "stage 'a': cannot allocate 1125899906842624 bytes on Fake GPU");
}

TEST_F(CudaPluginTest, CopiesToTheHostArriveWithALaterEvent) {
  DeviceMemory memory = device->allocate(64, "a");
  std::vector<char> source(64, 7), target(64, 0);
  stream->copy(memory.get(), source.data(), 64);
  // The source may change as soon as the copy is given.
  std::fill(source.begin(), source.end(), 8);
  stream->copy(target.data(), memory.get(), 64);
  // It is pageable, so the stream itself cannot have written it.
  EXPECT_EQ(target, std::vector<char>(64, 0));
  wait();
  EXPECT_EQ(target, std::vector<char>(64, 7));
  stream->clear(memory.get(), 64);
  stream->copy(target.data(), memory.get(), 64);
  stream.reset();
  EXPECT_EQ(target, std::vector<char>(64, 0));
}

TEST_F(CudaPluginTest, AnEventBringsHomeOnlyWhatCameBeforeIt) {
  DeviceMemory memory = device->allocate(64, "a");
  std::vector<char> first(64, 1), second(64, 1);
  stream->copy(first.data(), memory.get(), 64);
  stream->record(*event);
  stream->copy(second.data(), memory.get(), 64);
  event->synchronize();
  EXPECT_EQ(first, std::vector<char>(64, 0));
  EXPECT_EQ(second, std::vector<char>(64, 1));
  wait();
  EXPECT_EQ(second, std::vector<char>(64, 0));
}

TEST_F(CudaPluginTest, TimestampsAreOnTheSteadyClock) {
  int64_t times[200];
  int64_t before = steadyNanoseconds();
  for (int64_t &time : times)
    stream->timestamp(time);
  wait();
  int64_t after = steadyNanoseconds();
  // Milliseconds in f32, and the time between a record and its measurement.
  EXPECT_GT(times[0], before - 5'000'000);
  EXPECT_LT(times[199], after + 5'000'000);
  for (int i = 1; i < 200; ++i)
    EXPECT_GE(times[i], times[i - 1]);
}

TEST_F(CudaPluginTest, AHeldStreamWaitsForItsRelease) {
  // Nothing to release.
  stream->release();
  wait();
  for (int round = 0; round < 2; ++round) {
    stream->hold();
    expectIn(messageOf([&] { wait(); }), "the GPU's work failed");
    stream->release();
    wait();
  }
  // One that is held does not keep its destructor waiting.
  stream->hold();
}

TEST_F(CudaPluginTest, RangesAreThoseOfNvtx) {
  // Before the first range, which looks for a profiler.
  setenv("NVTX_INJECTION64_PATH", PP_FAKE_NVTX, 1);
  {
    DeviceRange step(*device, "step 1");
    DeviceRange action(*device, "1F0");
  }
  DeviceRange(*device, "2SEND_F1");
  void *library = dlopen(PP_FAKE_NVTX, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library);
  auto takeRanges =
      reinterpret_cast<const char *(*)()>(dlsym(library, "take_ranges"));
  EXPECT_STREQ(takeRanges(), "step 1(1F0())2SEND_F1()");
  EXPECT_EQ(device->describe(), "Fake GPU");
}

TEST_F(CudaPluginTest, CountersAreWrittenByStreams) {
  DeviceCounter counter = device->createCounter();
  for (int i = 0; i < 3; ++i)
    stream->count(*counter);
  wait();
  EXPECT_EQ(counter->load(), 3u);
  setenv("PP_FAKE_DRIVER_NO_WRITES", "1", 1);
  auto other = openCuda();
  unsetenv("PP_FAKE_DRIVER_NO_WRITES");
  DeviceCounter otherCounter = other->createCounter();
  auto otherStream = other->createStream();
  otherStream->count(*otherCounter);
  otherStream->count(*otherCounter);
  EXPECT_EQ(otherCounter->load(), 2u);
}

TEST_F(CudaPluginTest, LaunchesRunEveryKernelWithItsGridAndBlock) {
  auto program = load("fill_0 fill_1", nullptr);
  expectIn(refuse(*program, "launch name=other grids=1 blocks=1 tensors=1"),
           "no kernel 'other_0'");
  expectIn(refuse(*program, "launch name=fill grids=1x2 blocks=1 tensors=1"),
           "blocks=1: expected 2 integers");
  expectIn(refuse(*program, "launch name=fill grids=1 blocks=1 tensors=1 x=1"),
           "unknown key 'x'");
  expectIn(refuse(*program, "nonsense"), "unknown kind 'nonsense'");
  auto kernel =
      create(*program, "launch name=fill grids=12 blocks=32 tensors=1");
  auto nothing = create(*program, "launch name=nothing tensors=1");
  DeviceMemory memory = device->allocate(64, "a");
  void *tensors[] = {memory.get()};
  auto work = [&] {
    pp_execute_kernel(kernel.get(), tensors, nullptr);
    pp_execute_kernel(nothing.get(), tensors, nullptr);
  };
  stream->execute(work);
  stream->beginCapture();
  stream->execute(work);
  auto graph = stream->endCapture();
  stream->launch(*graph);
  stream->launch(*graph);
  float value = 0;
  stream->copy(&value, memory.get(), sizeof(value));
  wait();
  EXPECT_EQ(value, 3 * 12032.0f);
  EXPECT_EQ(takeKernelError(), "");
}

TEST_F(CudaPluginTest, AnEmptyCaptureLaunchesNothing) {
  stream->beginCapture();
  stream->execute([] {});
  auto graph = stream->endCapture();
  stream->launch(*graph);
  wait();
  // A stream that dies while it captures takes the graph with it.
  stream->beginCapture();
}

TEST_F(CudaPluginTest, TheOptimizerTakesItsCount) {
  auto program = load("optimizer_0", nullptr);
  auto kernel =
      create(*program, "launch name=optimizer blocks=256 tensors=4 count=1000");
  DeviceMemory memory = device->allocate(64, "a");
  void *tensors[] = {memory.get(), nullptr, nullptr, nullptr};
  stream->execute([&] { pp_execute_kernel(kernel.get(), tensors, nullptr); });
  float value = 0;
  stream->copy(&value, memory.get(), sizeof(value));
  wait();
  EXPECT_EQ(value, 10'000'004.0f); // 1000 elements, 4 blocks
}

TEST_F(CudaPluginTest, CopiesMayBeCaptured) {
  auto program = load("any", nullptr);
  auto kernel = create(*program, "copy bytes=4");
  expectIn(refuse(*program, "copy bytes=4x4"), "expected an integer");
  DeviceMemory from = device->allocate(64, "a"), to = device->allocate(64, "b");
  float one = 1, value = 0;
  stream->copy(from.get(), &one, 4);
  void *tensors[] = {from.get(), to.get()};
  stream->beginCapture();
  stream->execute([&] { pp_execute_kernel(kernel.get(), tensors, nullptr); });
  auto graph = stream->endCapture();
  stream->launch(*graph);
  stream->copy(&value, to.get(), 4);
  wait();
  EXPECT_EQ(value, 1.0f);
}

TEST_F(CudaPluginTest, CodeForAnotherChipFallsBackToPtx) {
  EXPECT_TRUE(load("other chip", "fill_0"));
  std::string message = messageOf([&] { load("other chip", nullptr); });
  expectIn(message, "no code for Fake GPU (sm_90)");
  message =
      messageOf([&] { load("other chip", ".version 99.0\n.target sm_100\n"); });
  expectIn(message, "compiled for sm_100, does not load on Fake GPU (sm_90)");
  expectIn(message, "update the driver, or compile the model with "
                    "--target=cuda:sm_90");
  expectIn(message, "fake log of the JIT");
}

/// Everything but convolutions through the plugin, against oneDNN. Matrix
/// products run on a fake cuBLASLt.
TEST_F(CudaPluginTest, KernelsAgreeWithTheProcessor) {
  auto program = load("any", nullptr);
  struct Case {
    const char *descriptor;
    std::vector<size_t> inputs, outputs;
  };
  for (const Case &c : std::vector<Case>{
           {"max_pool_forward src=2x3x7x6 dst=2x3x4x3 kernel=3x2 strides=2x2 "
            "dilations=1x1 pad_lo=1x0 pad_hi=1x0",
            {252},
            {72}},
           {"max_pool_backward src=2x3x7x6 dst=2x3x4x3 kernel=3x2 strides=2x2 "
            "dilations=1x1 pad_lo=1x0 pad_hi=1x0",
            {252, 72},
            {252}},
           {"matmul a=3x4 b=4x5 c=3x5", {12, 20}, {15}},
           {"matmul a=3x4 b=4x5 c=3x5 as=1x3 bs=1x4", {12, 20}, {15}},
           {"matmul a=3x4 b=4x5 c=3x5 cs=1x3", {12, 20}, {15}},
           {"matmul a=2x3x4x5 b=1x1x5x6 c=2x3x4x6", {120, 30}, {144}},
           {"matmul a=2x4x8x4 b=2x4x4x8 c=2x4x8x8 as=128x4x16x1 "
            "bs=128x4x1x16 cs=256x64x8x1",
            {256, 256},
            {512}},
           {"batch_norm_forward src=3x4x5x2 epsilon=1e-05",
            {120, 4, 4},
            {120, 4, 4}},
           {"batch_norm_backward src=3x4x5x2 epsilon=1e-05",
            {120, 120, 4, 4, 4},
            {120, 4, 4}}}) {
    std::string error;
    auto kernel = program->createKernel({c.descriptor, 4096}, error);
    // At a multiple of 64 and no more.
    DeviceMemory room = device->allocate(4096 + 64, "scratchpad");
    setKernelThreads(1);
    auto expected = LibraryKernel::create(c.descriptor, error);
    ASSERT_TRUE(kernel && expected) << error;
    std::vector<std::vector<float>> host;
    std::vector<DeviceMemory> memories;
    std::vector<void *> hostTensors, tensors;
    unsigned seed = 1;
    for (const auto *sizes : {&c.inputs, &c.outputs})
      for (size_t size : *sizes) {
        host.emplace_back(size);
        for (float &value : host.back())
          value = float((seed = seed * 1664525 + 1013904223) >> 20) / 1024;
        memories.push_back(device->allocate(size * 4, "tensor"));
        tensors.push_back(memories.back().get());
        stream->copy(tensors.back(), host.back().data(), size * 4);
      }
    for (auto &values : host)
      hostTensors.push_back(values.data());
    void *scratchpad = std::aligned_alloc(64, expected->scratchpadBytes() + 64);
    ASSERT_TRUE(expected->execute(hostTensors.data(), scratchpad));
    std::free(scratchpad);
    stream->execute([&] {
      pp_execute_kernel(kernel.get(), tensors.data(), room.get() + 64);
    });
    EXPECT_EQ(takeKernelError(), "");
    for (size_t i = c.inputs.size(); i < host.size(); ++i) {
      std::vector<float> actual(host[i].size());
      stream->copy(actual.data(), tensors[i], actual.size() * 4);
      wait();
      for (size_t j = 0; j < actual.size(); ++j)
        EXPECT_NEAR(actual[j], host[i][j], 1e-4f * (1 + std::abs(host[i][j])))
            << c.descriptor << " output " << i << " at " << j;
    }
  }
}

TEST_F(CudaPluginTest, ALinkReachesItself) {
  const pp_device_table &table = loadPlugin(PP_CUDA_PLUGIN_FILE);
  pp_device *handle = nullptr;
  pp_device_error error{};
  ASSERT_EQ(table.device_open(0, &handle, &error), 0) << error.text;
  EXPECT_EQ(table.link_check(handle, &error), 0) << error.text;
  table.device_close(handle);
}

TEST_F(CudaPluginTest, LinksKeepOrderAndSizes) {
  std::string name = device->createLinkName();
  std::unique_ptr<Link> sender = device->openLink(name, true);
  EXPECT_FALSE(sender->isOpen());
  std::unique_ptr<Link> receiver = device->openLink(name, false);
  EXPECT_TRUE(sender->isOpen() && receiver->isOpen());
  DeviceMemory from = device->allocate(128, "from");
  DeviceMemory to = device->allocate(128, "to");
  std::memset(from.get(), 1, 64);
  std::memset(from.get() + 64, 2, 64);
  // Each waits for the other, so they need a thread each.
  std::thread thread([&] {
    std::unique_ptr<Stream> other = device->createStream();
    sender->send(*other, from.get(), 64);
    sender->send(*other, from.get() + 64, 64);
  });
  receiver->receive(*stream, to.get(), 64);
  receiver->receive(*stream, to.get() + 64, 64);
  thread.join();
  EXPECT_EQ(std::memcmp(from.get(), to.get(), 128), 0);
  std::thread late([&] {
    std::unique_ptr<Stream> other = device->createStream();
    expectIn(messageOf([&] { sender->send(*other, from.get(), 32); }),
             "NCCL: ");
  });
  expectIn(messageOf([&] { receiver->receive(*stream, to.get(), 64); }),
           "NCCL: ");
  late.join();
}

TEST_F(CudaPluginTest, AnAbortEndsTheWaiting) {
  std::unique_ptr<Link> link = device->openLink(device->createLinkName(), true);
  DeviceMemory memory = device->allocate(64, "memory");
  std::thread thread([&] {
    std::unique_ptr<Stream> other = device->createStream();
    link->send(*other, memory.get(), 64);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  link->abort();
  thread.join();
}

} // namespace
