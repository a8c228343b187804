//===- CudaPluginTest.cpp - libpp_cuda.so on a driver without a GPU -------===//
#include "FakeNumbers.h"
#include "ToyProgram.h"
#include "cpu/LibraryKernel.h"
#include "device/PluginDevice.h"
#include "plan/Plan.h"
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
  // The first device looks for a profiler.
  setenv("NVTX_INJECTION64_PATH", PP_FAKE_NVTX, 1);
  // The plugin asks for them by their sonames.
  for (const char *library :
       {PP_FAKE_DRIVER, PP_FAKE_NVRTC, PP_FAKE_BLAS, PP_FAKE_DNN, PP_FAKE_NCCL})
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
    pp_pipeline program{};
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
  std::string refuse(DeviceProgram &program, const std::string &descriptor,
                     uint64_t scratchpad = 0) {
    std::string error;
    EXPECT_FALSE(program.createKernel({descriptor, scratchpad}, error));
    return error;
  }

  using Bytes = std::vector<char>;
  /// Runs a kernel whose last tensor is its result, and returns that.
  Bytes run(DeviceProgram &program, const std::string &descriptor,
            const std::vector<Bytes> &inputs, size_t resultBytes) {
    constexpr uint64_t scratchpad = 1 << 16;
    std::string error;
    auto kernel = program.createKernel({descriptor, scratchpad}, error);
    EXPECT_TRUE(kernel) << error;
    if (!kernel)
      return {};
    // At a multiple of 64 and no more.
    DeviceMemory room = device->allocate(scratchpad + 64, "scratchpad");
    std::vector<DeviceMemory> memories;
    std::vector<void *> tensors;
    for (const Bytes &input : inputs) {
      memories.push_back(device->allocate(input.size(), "input"));
      tensors.push_back(memories.back().get());
      stream->copy(tensors.back(), input.data(), input.size());
    }
    memories.push_back(device->allocate(resultBytes, "result"));
    tensors.push_back(memories.back().get());
    stream->execute([&] {
      pp_execute_kernel(kernel.get(), tensors.data(), room.get() + 64);
    });
    EXPECT_EQ(takeKernelError(), "");
    Bytes result(resultBytes);
    stream->copy(result.data(), tensors.back(), resultBytes);
    wait();
    return result;
  }
};

using fakenumbers::Type;

Type typeNamed(const std::string &name) {
  return name == "bf16" ? Type::BF16 : name == "f16" ? Type::F16 : Type::F32;
}

std::vector<char> encode(const std::vector<float> &values, Type type) {
  std::vector<char> bytes(values.size() * (type == Type::F32 ? 4 : 2));
  for (size_t i = 0; i < values.size(); ++i)
    fakenumbers::store(bytes.data(), type, i, values[i]);
  return bytes;
}

std::vector<float> decode(const std::vector<char> &bytes, Type type) {
  std::vector<float> values(bytes.size() / (type == Type::F32 ? 4 : 2));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = fakenumbers::load(bytes.data(), type, i);
  return values;
}

std::vector<float> someValues(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float &value : values)
    value = float((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
  return values;
}

/// The kernel of the processor on f32.
std::vector<float> runOnProcessor(const std::string &descriptor,
                                  std::vector<std::vector<float>> inputs,
                                  size_t resultSize) {
  std::string error;
  setKernelThreads(1);
  auto kernel = LibraryKernel::create(descriptor, error);
  EXPECT_TRUE(kernel) << error;
  std::vector<float> result(resultSize);
  std::vector<void *> tensors;
  for (auto &input : inputs)
    tensors.push_back(input.data());
  tensors.push_back(result.data());
  void *scratchpad = std::aligned_alloc(64, kernel->scratchpadBytes() + 64);
  EXPECT_TRUE(kernel->execute(tensors.data(), scratchpad));
  std::free(scratchpad);
  return result;
}

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

TEST_F(CudaPluginTest, WorkReadsWhatTheStreamHasDone) {
  DeviceMemory memory = device->allocate(64, "test");
  std::vector<char> source(64, 'x'), target(64, 0);
  stream->copy(memory.get(), source.data(), 64);
  stream->execute([&] {
    stream->read(target.data(), memory.get(), 64);
    EXPECT_EQ(target, source);
  });
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
  const std::string text =
      "launch name=optimizer elements=256 blocks=256 tensors=4 count=1000";
  auto whole = create(*program, text),
       part = create(*program, text + " stride=3000");
  DeviceMemory memory = device->allocate(64, "a");
  void *tensors[] = {memory.get(), nullptr, nullptr, nullptr};
  stream->execute([&] { pp_execute_kernel(whole.get(), tensors, nullptr); });
  float values[2] = {};
  stream->copy(values, memory.get(), sizeof(values));
  wait();
  EXPECT_EQ(values[0], 10'000'004.0f); // 1000 elements, 4 blocks
  EXPECT_EQ(values[1], 1000.0f);
  stream->execute([&] { pp_execute_kernel(part.get(), tensors, nullptr); });
  stream->copy(values, memory.get(), sizeof(values));
  wait();
  EXPECT_EQ(values[0], 20'000'008.0f);
  EXPECT_EQ(values[1], 3000.0f);
  expectIn(refuse(*program, text + "x1"), "count=1000x1: expected an integer");
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
           {"matmul a=3x4 b=4x8 c=3x8 epilogue=bias", {12, 32, 8}, {24}},
           {"matmul a=3x4 b=4x8 c=3x8 as=1x3 epilogue=bias_relu",
            {12, 32, 8},
            {24}},
           {"matmul a=3x4 b=4x8 c=3x8 bs=1x4 epilogue=bias_gelu",
            {12, 32, 8},
            {24}},
           {"matmul a=3x4 b=4x8 c=3x8 epilogue=bias_gelu_aux",
            {12, 32, 8},
            {24, 24}},
           {"matmul a=3x4 b=4x8 c=3x8 as=1x3 bs=1x4 epilogue=bias_gelu_aux",
            {12, 32, 8},
            {24, 24}},
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

/// A product with its factors and results in every type, for the processor
/// and for the plugin on fake libraries.
struct ProductCase {
  std::string descriptor;
  size_t first, second, result;
  size_t resultPosition; // in the key types
};

const ProductCase productCases[] = {
    {"matmul a=3x40 b=40x5 c=3x5", 120, 200, 15, 2},
    {"matmul a=3x4x40 b=1x40x5 c=3x4x5 as=160x1x4", 480, 200, 60, 2},
    {"conv_forward src=2x4x6x5 weights=6x2x3x3 dst=2x6x3x5 strides=2x1 "
     "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=2 bias=0",
     240, 108, 180, 2},
    {"conv_backward_data src=2x4x6x5 weights=6x2x3x3 dst=2x6x3x5 strides=2x1 "
     "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=2",
     180, 108, 240, 0},
    {"conv_backward_weights src=2x4x6x5 weights=6x2x3x3 dst=2x6x3x5 "
     "strides=2x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=2",
     240, 180, 108, 1}};

TEST_F(CudaPluginTest, ProductsHaveTheTypesOfTheDescriptor) {
  auto program = load("any", nullptr);
  for (const ProductCase &c : productCases)
    for (const char *factor : {"f32", "bf16", "f16"})
      for (const char *result : {factor, "f32"}) {
        Type type = typeNamed(factor), resultType = typeNamed(result);
        std::vector<std::vector<float>> inputs;
        std::vector<Bytes> encoded;
        for (size_t size : {c.first, c.second}) {
          encoded.push_back(encode(someValues(size, size), type));
          inputs.push_back(decode(encoded.back(), type));
        }
        auto expected = runOnProcessor(c.descriptor, inputs, c.result);
        std::string text = c.descriptor + " types=";
        for (size_t i = 0; i < 3; ++i)
          text += std::string(i ? "x" : "") +
                  (i == c.resultPosition ? result : factor);
        auto actual = decode(run(*program, text, encoded,
                                 c.result * (resultType == Type::F32 ? 4 : 2)),
                             resultType);
        // Factors are exact; a short result is rounded once.
        float tolerance = resultType == Type::F32    ? 2e-6f
                          : resultType == Type::BF16 ? 1.0f / 256
                                                     : 1.0f / 2048;
        for (size_t i = 0; i < c.result; ++i)
          ASSERT_NEAR(actual[i], expected[i],
                      tolerance * (1 + std::abs(expected[i])))
              << text << " at " << i;
      }
}

/// One product with a bias and an activation, by the definition.
std::vector<float>
evaluateEpilogue(const std::string &name, const std::vector<float> &a,
                 bool isATransposed, const std::vector<float> &b,
                 bool isBTransposed, const std::vector<float> &bias, size_t m,
                 size_t k, size_t n) {
  std::vector<float> c(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double x = bias[j];
      for (size_t l = 0; l < k; ++l)
        x += double(a[isATransposed ? i + l * m : i * k + l]) *
             b[isBTransposed ? l + j * k : l * n + j];
      if (name == "bias_relu")
        x = std::max(x, 0.0);
      else if (name != "bias")
        x = 0.5 * x *
            (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      c[i * n + j] = static_cast<float>(x);
    }
  return c;
}

TEST_F(CudaPluginTest, EpiloguesFollowTheRowMajorMapping) {
  auto program = load("any", nullptr);
  constexpr size_t m = 5, k = 24, n = 9;
  for (const char *name : {"bias", "bias_relu", "bias_gelu"})
    for (int transposes = 0; transposes < 4; ++transposes)
      for (const char *factor : {"f32", "bf16", "f16"})
        for (const char *result : {factor, "f32"}) {
          bool isATransposed = transposes & 1, isBTransposed = transposes & 2;
          Type types[] = {typeNamed(factor), typeNamed(factor),
                          typeNamed(result)};
          size_t sizes[] = {m * k, k * n, n};
          std::vector<Bytes> encoded;
          std::vector<std::vector<float>> inputs;
          for (size_t i = 0; i < 3; ++i) {
            encoded.push_back(encode(someValues(sizes[i], i + 1), types[i]));
            inputs.push_back(decode(encoded.back(), types[i]));
          }
          std::string text = "matmul a=5x24 b=24x9 c=5x9 types=";
          text += std::string(factor) + "x" + factor + "x" + result;
          text += isATransposed ? " as=1x5" : "";
          text += isBTransposed ? " bs=1x24" : "";
          text += std::string(" epilogue=") + name;
          size_t bytes = types[2] == Type::F32 ? 4 : 2;
          auto actual =
              decode(run(*program, text, encoded, bytes * m * n), types[2]);
          auto expected =
              evaluateEpilogue(name, inputs[0], isATransposed, inputs[1],
                               isBTransposed, inputs[2], m, k, n);
          float tolerance = types[2] == Type::F32    ? 4e-6f
                            : types[2] == Type::BF16 ? 1.0f / 256
                                                     : 1.0f / 2048;
          for (size_t i = 0; i < m * n; ++i)
            ASSERT_NEAR(actual[i], expected[i],
                        tolerance * (1 + std::abs(expected[i])))
                << text << " at " << i;
        }
}

TEST_F(CudaPluginTest, EpiloguesThatTheLibraryLacksAreRefused) {
  auto program = load("any", nullptr);
  expectIn(refuse(*program, "matmul a=3x4 b=4x8 c=3x8 epilogue=gelu"),
           "epilogue: unknown word 'gelu'");
  expectIn(refuse(*program, "matmul a=2x3x4 b=2x4x8 c=2x3x8 epilogue=bias"),
           "epilogue: only of one product, not of a batch");
  expectIn(refuse(*program, "matmul a=3x4 b=4x8 c=3x8 cs=1x3 epilogue=bias"),
           "epilogue: the result must be dense and row-major");
  expectIn(refuse(*program, "matmul a=3x4 b=4x9 c=3x9 epilogue=bias_gelu_aux"),
           "the number of columns must be a multiple of 8");
}

TEST_F(CudaPluginTest, Tf32IsUsedWhereItIsAllowed) {
  auto program = load("any", nullptr);
  for (const ProductCase &c : productCases) {
    std::vector<std::vector<float>> exact, rounded;
    std::vector<Bytes> encoded;
    for (size_t size : {c.first, c.second}) {
      exact.push_back(someValues(size, size));
      encoded.push_back(encode(exact.back(), Type::F32));
      rounded.push_back(exact.back());
      for (float &value : rounded.back())
        value = fakenumbers::toTf32(value);
    }
    auto wanted = runOnProcessor(c.descriptor, exact, c.result);
    auto wantedTf32 = runOnProcessor(c.descriptor, rounded, c.result);
    auto actual =
        decode(run(*program, c.descriptor, encoded, 4 * c.result), Type::F32);
    auto actualTf32 = decode(
        run(*program, c.descriptor + " compute=tf32", encoded, 4 * c.result),
        Type::F32);
    float difference = 0;
    for (size_t i = 0; i < c.result; ++i) {
      ASSERT_NEAR(actual[i], wanted[i], 4e-6f) << c.descriptor;
      ASSERT_NEAR(actualTf32[i], wantedTf32[i], 4e-6f) << c.descriptor;
      difference = std::max(difference, std::abs(wanted[i] - wantedTf32[i]));
    }
    EXPECT_GT(difference, 1e-4f);
  }
}

TEST_F(CudaPluginTest, TypesThatDoNotGoTogetherAreRefused) {
  auto program = load("any", nullptr);
  std::string text = "matmul a=3x4 b=4x5 c=3x5";
  expectIn(refuse(*program, text + " types=bf16xf16xf32"),
           "expected factors of one type, and a result of that type or f32");
  expectIn(refuse(*program, text + " types=f32xf32xbf16"),
           "expected factors of one type");
  expectIn(refuse(*program, text + " types=bf16xbf16xbf16 compute=tf32"),
           "compute=tf32: the factors are not f32");
  expectIn(refuse(*program, text + " compute=fp8"), "unknown word 'fp8'");
  expectIn(refuse(*program, productCases[4].descriptor + " types=bf16xf32xbf16",
                  /*scratchpad=*/1024),
           "the factors in f32 take 1792 bytes, but the scratchpad has only "
           "768");
}

TEST_F(CudaPluginTest, SumsAreThoseOfTheProcessor) {
  auto program = load("any", nullptr);
  for (size_t count : {1, 255, 300001}) {
    std::vector<float> a(count), b(count);
    for (size_t i = 0; i < count; ++i) {
      a[i] = std::sin(static_cast<float>(i));
      b[i] = 1e3f * std::cos(static_cast<float>(i));
    }
    std::string text = "add count=" + std::to_string(count);
    auto actual = run(*program, text,
                      {encode(a, Type::F32), encode(b, Type::F32)}, count * 4);
    EXPECT_EQ(decode(actual, Type::F32), runOnProcessor(text, {a, b}, count));
  }
  expectIn(refuse(*program, "add count=0"), "expected integers of at least 1");
}

TEST_F(CudaPluginTest, TheKernelsOfTheLossScaleAgreeWithTheProcessor) {
  auto program = load("any", nullptr);
  for (size_t count : {1, 255, 70001})
    for (float bad : {0.0f, INFINITY, -INFINITY, NAN})
      for (size_t at : {size_t(0), count / 2, count - 1}) {
        std::vector<float> values(count, 3e38f);
        values[at] = bad;
        std::string text = "check_finite count=" + std::to_string(count);
        float expected = bad == 0 ? 0 : 1;
        EXPECT_EQ(runOnProcessor(text, {values}, 1)[0], expected);
        auto actual = run(*program, text, {encode(values, Type::F32)}, 4);
        EXPECT_EQ(decode(actual, Type::F32)[0], expected);
      }
  std::string text = "loss_scale ranks=3 scale=1 skipped=2";
  for (auto [interval, isStopping] :
       {std::pair("", 0.0f), {" interval=0", 0.0f}, {"", 1.0f}})
    for (float flag : {0.0f, 1.0f})
      for (std::vector<float> state : {std::vector<float>{1024, 1, 5, 2, 7},
                                       {1.5e-38f, 0, 0, 0, 7},
                                       {3e38f, 1, 0, 0, 7},
                                       {1024, 0, 0, 0, 7}}) {
        std::vector<float> scalars = {2, 9, isStopping};
        std::vector<float> flags = {0, flag, 0};
        std::vector<std::vector<float>> both;
        for (bool isDevice : {false, true}) {
          std::vector<float> memory[] = {flags, state, scalars};
          std::vector<void *> tensors;
          std::string error;
          std::unique_ptr<Kernel> kernel;
          std::vector<DeviceMemory> memories;
          if (!isDevice) {
            for (auto &values : memory)
              tensors.push_back(values.data());
            LibraryKernel::create(text + interval, error)
                ->execute(tensors.data(), nullptr);
          } else {
            for (auto &values : memory) {
              memories.push_back(device->allocate(64, "tensor"));
              tensors.push_back(memories.back().get());
              stream->copy(tensors.back(), values.data(), values.size() * 4);
            }
            kernel = create(*program, text + interval);
            stream->execute([&] {
              pp_execute_kernel(kernel.get(), tensors.data(), nullptr);
            });
            for (int i : {1, 2})
              stream->copy(memory[i].data(), tensors[i], memory[i].size() * 4);
            wait();
          }
          both.push_back(memory[1]);
          both.back().insert(both.back().end(), memory[2].begin(),
                             memory[2].end());
        }
        EXPECT_EQ(both[0], both[1]);
        EXPECT_EQ(both[0][4], state[0]);
        EXPECT_EQ(both[0][6], state[0]);
        // Once a step was skipped, a training that stops skips all.
        bool skips = flag != 0 || (isStopping != 0 && state[3] > 0);
        EXPECT_EQ(both[0][7], skips ? 1 : 0);
        bool isDynamic = *interval;
        float next = !isDynamic ? state[0]
                     : skips    ? std::max(state[0] / 2, 1.175494351e-38f)
                     : state[1] == 1 && state[0] < 1e38f ? 2 * state[0]
                                                         : state[0];
        EXPECT_EQ(both[0][0], next);
      }
}

#ifdef PP_CUDNN_FRONTEND

/// Attention by the definition in docs/plan-format.md, and where its tensors
/// are: all dense, or q, k and v side by side as one product makes them.
struct AttentionCase {
  size_t b, h, m, n, d, e;
  float scale;
  bool isCausal, isPacked;

  using Values = std::vector<float>;
  struct View {
    size_t rows, columns;
    std::vector<size_t> strides = {};
    size_t offset = 0;
    size_t at(size_t batch, size_t head, size_t row, size_t column) const {
      return offset + batch * strides[0] + head * strides[1] +
             row * strides[2] + column;
    }
  };
  /// q, k, v and out.
  std::vector<View> getViews() const {
    std::vector<View> views = {{m, d}, {n, d}, {n, e}, {m, e}};
    for (size_t i = 0; i < 4; ++i) {
      View &view = views[i];
      size_t parts = i == 3 ? 1 : 3;
      if (isPacked) {
        view.strides = {parts * view.rows * h * d, d, parts * h * d, 1};
        view.offset = i == 3 ? 0 : i * h * d;
      } else {
        view.strides = {h * view.rows * view.columns, view.rows * view.columns,
                        view.columns, 1};
      }
    }
    return views;
  }
  std::string getText(const char *kind, const char *type) const {
    std::string text = std::string(kind) + " scale=" + std::to_string(scale) +
                       " causal=" + (isCausal ? "1" : "0") + " types=" + type;
    const char *names[] = {"q", "k", "v", "o", "dq", "dk", "dv", "do"};
    bool isBackward = std::string(kind) == "attention_backward";
    for (size_t i = 0; i < (isBackward ? 8 : 4); ++i) {
      View view = getViews()[i % 4];
      if (i < 3)
        text += std::string(" ") + names[i] + "=" + std::to_string(b) + "x" +
                std::to_string(h) + "x" + std::to_string(view.rows) + "x" +
                std::to_string(view.columns);
      if (!isPacked)
        continue;
      text += std::string(" ") + names[i] + "s=";
      for (size_t stride : view.strides)
        text += (text.back() == '=' ? "" : "x") + std::to_string(stride);
    }
    return text;
  }

  /// tensors: q, k, v, out, lse, diff_out, diff_q, diff_k, diff_v.
  void evaluate(std::vector<Values> &tensors) const {
    auto views = getViews();
    for (size_t x = 0; x < b; ++x)
      for (size_t y = 0; y < h; ++y)
        for (size_t i = 0; i < m; ++i) {
          auto at = [&](size_t tensor, size_t row, size_t column) -> float & {
            size_t like = tensor < 4 ? tensor : tensor == 5 ? 3 : tensor - 6;
            return tensors[tensor][views[like].at(x, y, row, column)];
          };
          size_t columns = isCausal ? i + 1 : n;
          std::vector<double> scores(columns), p(columns);
          double sum = 0, dot = 0;
          for (size_t j = 0; j < columns; ++j) {
            for (size_t k = 0; k < d; ++k)
              scores[j] += double(scale) * at(0, i, k) * at(1, j, k);
            sum += std::exp(scores[j]);
          }
          double lse = std::log(sum);
          tensors[4][(x * h + y) * m + i] = static_cast<float>(lse);
          for (size_t k = 0; k < e; ++k) {
            double value = 0;
            for (size_t j = 0; j < columns; ++j)
              value += (p[j] = std::exp(scores[j] - lse)) * at(2, j, k);
            at(3, i, k) = static_cast<float>(value);
            dot += value * at(5, i, k);
          }
          for (size_t j = 0; j < columns; ++j) {
            double dp = 0;
            for (size_t k = 0; k < e; ++k) {
              dp += double(at(5, i, k)) * at(2, j, k);
              at(8, j, k) += static_cast<float>(p[j] * at(5, i, k));
            }
            for (size_t k = 0; k < d; ++k) {
              double ds = scale * p[j] * (dp - dot);
              at(6, i, k) += static_cast<float>(ds * at(1, j, k));
              at(7, j, k) += static_cast<float>(ds * at(0, i, k));
            }
          }
        }
  }
};

const AttentionCase attentionCases[] = {
    {2, 3, 5, 7, 8, 16, 0.35f, false, false},
    {2, 2, 9, 9, 16, 8, 1.5f, true, false},
    {2, 3, 6, 6, 8, 8, 0.7f, true, false},
    {2, 3, 6, 6, 8, 8, 0.7f, true, true},
    {1, 2, 130, 130, 8, 8, 0.5f, true, true},
};

/// cudnn-frontend's graph for attention, executed one operation after the
/// other.
TEST_F(CudaPluginTest, AttentionIsWhatItsDefinitionSays) {
  auto program = load("any", nullptr);
  constexpr uint64_t scratchpad = 1 << 16;
  for (const AttentionCase &c : attentionCases)
    for (const char *name : {"bf16", "f16"}) {
      Type type = typeNamed(name);
      // Tensors by their memory: those that are packed share one.
      size_t rows = c.b * c.h;
      size_t sizes[] = {rows * c.m * c.d, rows * c.n * c.d, rows * c.n * c.e,
                        rows * c.m * c.e};
      std::vector<size_t> memoryOf = {0, 1, 2, 3, 4, 5, 6, 7, 8};
      if (c.isPacked) {
        sizes[0] *= 3;
        memoryOf = {0, 0, 0, 3, 4, 5, 6, 6, 6};
      }
      std::vector<AttentionCase::Values> expected(9);
      for (size_t i = 0; i < 9; ++i)
        expected[i].resize(i == 4                 ? rows * c.m
                           : i == 3 || i == 5     ? sizes[3]
                           : memoryOf[i] % 6 == 0 ? sizes[0]
                                                  : sizes[i % 6]);
      for (size_t i : {0, 1, 2, 5})
        expected[i] =
            memoryOf[i] == i
                ? decode(encode(someValues(expected[i].size(), i + 1), type),
                         type)
                : expected[memoryOf[i]];
      std::vector<DeviceMemory> memories(9);
      std::vector<void *> tensors(9);
      auto views = c.getViews();
      for (size_t i = 0; i < 9; ++i) {
        Type each = i == 4 ? Type::F32 : type;
        if (memoryOf[i] == i) {
          Bytes bytes = encode(expected[i], each);
          memories[i] = device->allocate(bytes.size(), "tensor");
          stream->copy(memories[i].get(), bytes.data(), bytes.size());
        }
        size_t like = i < 4 ? i : i < 6 ? 3 : i - 6;
        tensors[i] =
            memories[memoryOf[i]].get() + (i == 4 ? 0 : 2 * views[like].offset);
      }
      DeviceMemory room = device->allocate(scratchpad + 64, "scratchpad");
      for (const char *kind : {"attention_forward", "attention_backward"}) {
        std::string error;
        auto kernel =
            program->createKernel({c.getText(kind, name), scratchpad}, error);
        ASSERT_TRUE(kernel) << error;
        stream->execute([&] {
          pp_execute_kernel(kernel.get(), tensors.data(), room.get() + 64);
        });
        ASSERT_EQ(takeKernelError(), "") << c.getText(kind, name);
      }
      c.evaluate(expected);
      // The gradients that are packed were made one by one.
      if (c.isPacked)
        for (size_t i = 0; i < expected[6].size(); ++i)
          expected[6][i] += expected[7][i] + expected[8][i];
      // Probabilities and their gradients are rounded to the type.
      float tolerance = type == Type::BF16 ? 1.0f / 64 : 1.0f / 512;
      for (size_t i : {3, 4, 6, 7, 8}) {
        if (memoryOf[i] != i)
          continue;
        Type each = i == 4 ? Type::F32 : type;
        Bytes bytes = encode(expected[i], each);
        stream->copy(bytes.data(), memories[i].get(), bytes.size());
        wait();
        auto actual = decode(bytes, each);
        float allowed = i == 4 ? 1e-5f : tolerance;
        for (size_t j = 0; j < actual.size(); ++j)
          ASSERT_NEAR(actual[j], expected[i][j],
                      allowed * (1 + std::abs(expected[i][j])))
              << c.getText("tensor", name) << " tensor " << i << " at " << j;
      }
    }
}

TEST_F(CudaPluginTest, AttentionThatCannotRunIsRefused) {
  auto program = load("any", nullptr);
  const AttentionCase &c = attentionCases[0];
  // 2 * 3 * 5 sums of rows, and what the fake wants.
  expectIn(refuse(*program, c.getText("attention_backward", "bf16"), 800),
           "cuDNN's attention wants 632 bytes of scratchpad, but the plan "
           "leaves it only 544; compile the model with "
           "--fuse-attention=never");
  expectIn(refuse(*program, c.getText("attention_forward", "f32"), 1 << 16),
           "types=f32: cuDNN has attention only for bf16 and f16");
  expectIn(refuse(*program, c.getText("attention_forward", "f16") + " x=1"),
           "unknown key 'x'");
}

#endif

} // namespace
