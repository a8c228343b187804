//===- FakeDriver.cpp - libcuda.so.1 on host memory -----------------------===//
//
// So that the plugin itself can be tested without a GPU. Everything runs at
// once. It checks what the driver checks and the plugin could get wrong: that a
// context is current, that nothing but kernels is captured, and which memory is
// whose. It has these kernels:
//
//   fill_0(float *to, void *scratchpad)       to[0] += grid * 1000 + block
//   optimizer_0(p0, p1, p2, p3, int64 count)  p0[0] += count * 10000 + grid
//   those of DeviceKernels.inc
//
// Code whose cubin is the text "other chip" has none for this GPU, and whose
// PTX contains "version 99" is too new.
//
//===----------------------------------------------------------------------===//
#include "HostKernels.h"

#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace {

using Work = std::function<void()>;

struct FakeGraph {
  std::vector<Work> works;
};
/// That `*word` is at least `value`.
struct Condition {
  const uint64_t *word = nullptr;
  uint64_t value = 0;
  bool holds() const {
    return !word || __atomic_load_n(word, __ATOMIC_RELAXED) >= value;
  }
};
struct FakeStream {
  FakeGraph *capture = nullptr;
  Condition condition; // of the last cuStreamWaitValue64
};
struct FakeEvent {
  unsigned flags = 0;
  int64_t nanoseconds = 0;
  Condition condition{}; // of the stream that it was recorded on
};

std::mutex mutex;
std::map<uintptr_t, size_t> memories; // of the driver
std::map<CUdeviceptr, int> opened;    // by other processes
thread_local bool hasContext = false;

bool isKnown(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = memories.upper_bound(address);
  if (it == memories.begin())
    return false;
  --it;
  return address + bytes <= it->first + it->second;
}

CUresult allocate(void **memory, size_t bytes) {
  if (!hasContext)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes > (size_t(1) << 40) || bytes == 0)
    return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // Real memory is not zeroed.
  std::memset(*memory, 0xaa, bytes);
  std::lock_guard<std::mutex> lock(mutex);
  memories[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  return CUDA_SUCCESS;
}

CUresult release(void *memory) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!memories.erase(reinterpret_cast<uintptr_t>(memory)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::free(memory);
  return CUDA_SUCCESS;
}

FakeStream *get(CUstream stream) {
  return reinterpret_cast<FakeStream *>(stream);
}
FakeEvent *get(CUevent event) { return reinterpret_cast<FakeEvent *>(event); }
char *at(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

/// What every call on a stream has to satisfy.
CUresult check(CUstream stream) {
  if (!hasContext)
    return CUDA_ERROR_INVALID_CONTEXT;
  // The plugin never uses the default stream.
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  return get(stream)->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                              : CUDA_SUCCESS;
}

template <typename T> T parameter(void **parameters, int index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof(value));
  return value;
}

/// The parameters are read now, as the driver does.
Work makeWork(const std::string &name, unsigned grid, unsigned block,
              void **parameters) {
  using namespace hostkernels;
  auto pointer = [&](int index) {
    return parameter<float *>(parameters, index);
  };
  if (name == "fill_0")
    return [=, to = pointer(0)] {
      to[0] += static_cast<float>(grid * 1000 + block);
    };
  if (name == "optimizer_0")
    return [=, to = pointer(0), count = parameter<int64_t>(parameters, 5),
            stride = parameter<int64_t>(parameters, 6)] {
      to[0] += static_cast<float>(count * 10000 + grid);
      to[1] = static_cast<float>(stride);
    };
  if (name == "widen_bf16" || name == "widen_f16")
    return
        [=, shape = parameter<WidenShape>(parameters, 0),
         from = parameter<unsigned short *>(parameters, 1), to = pointer(2)] {
          launch(name == "widen_f16" ? widen_f16 : widen_bf16, grid, block,
                 shape, from, to);
        };
  if (name == "check_finite")
    return [=, shape = parameter<FiniteShape>(parameters, 0), a = pointer(1),
            b = pointer(2)] { launch(check_finite, grid, block, shape, a, b); };
  if (name == "add")
    return [=, shape = parameter<AddShape>(parameters, 0), a = pointer(1),
            b = pointer(2),
            c = pointer(3)] { launch(add, grid, block, shape, a, b, c); };
  if (name == "loss_scale")
    return [=, shape = parameter<LossScaleShape>(parameters, 0), a = pointer(1),
            b = pointer(2), c = pointer(3)] {
      launch(loss_scale, grid, block, shape, a, b, c);
    };
  if (name.find("pool") != std::string::npos) {
    auto shape = parameter<PoolShape>(parameters, 0);
    if (name == "max_pool_backward")
      return [=, a = pointer(1), b = pointer(2), c = pointer(3)] {
        launch(max_pool_backward, grid, block, shape, a, b, c);
      };
    if (name == "max_pool_backward_planes")
      return [=, a = pointer(1), b = pointer(2), c = pointer(3)] {
        launchTogether(max_pool_backward_planes, grid, block, shape, a, b, c);
      };
    auto kernel = name == "max_pool_forward"   ? max_pool_forward
                  : name == "avg_pool_forward" ? avg_pool_forward
                                               : avg_pool_backward;
    return [=, a = pointer(1), b = pointer(2)] {
      launch(kernel, grid, block, shape, a, b);
    };
  }
  auto shape = parameter<BatchNormShape>(parameters, 0);
  std::vector<float *> p;
  for (int i = 1; i <= (name == "batch_norm_forward" ? 6 : 8); ++i)
    p.push_back(pointer(i));
  if (name == "batch_norm_forward")
    return [=] {
      launchTogether(batch_norm_forward, grid, block, shape, p[0], p[1], p[2],
                     p[3], p[4], p[5]);
    };
  return [=] {
    launchTogether(batch_norm_backward, grid, block, shape, p[0], p[1], p[2],
                   p[3], p[4], p[5], p[6], p[7]);
  };
}

} // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuDriverGetVersion(int *version) {
  const char *other = std::getenv("PP_FAKE_DRIVER_VERSION");
  *version = other ? std::atoi(other) : CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult result, const char **text) {
  static thread_local std::string kept;
  kept = "fake error " + std::to_string(static_cast<int>(result));
  *text = kept.c_str();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetCount(int *count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice *device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice) {
  std::strncpy(name, "Fake GPU", length);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                      CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 1;
  if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)
    *value = !std::getenv("PP_FAKE_DRIVER_NO_WRITES");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  static int token;
  *context = reinterpret_cast<CUcontext>(&token);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  hasContext = context != nullptr;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *memory, size_t bytes) {
  void *result = nullptr;
  CUresult code = allocate(&result, bytes);
  *memory = reinterpret_cast<CUdeviceptr>(result);
  return code;
}
CUresult CUDAAPI cuMemFree(CUdeviceptr memory) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    // After a failure, nobody waits for others to close anything.
    if (opened[memory] > 0 && std::getenv("PP_FAKE_DRIVER_ORDERLY")) {
      std::fprintf(stderr, "fake driver: freed while another has it open\n");
      std::abort();
    }
  }
  return release(at(memory));
}

// Handles hold the address: both "processes" are threads of this one.
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = memories.find(memory);
  if (it == memories.end() || it->second % (2 << 20) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &memory, sizeof(memory));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *memory, CUipcMemHandle handle,
                                    unsigned flags) {
  if (!hasContext || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(memory, &handle, sizeof(*memory));
  std::lock_guard<std::mutex> lock(mutex);
  ++opened[*memory];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr memory) {
  std::lock_guard<std::mutex> lock(mutex);
  return --opened[memory] < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
  if (get(event)->flags != (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &event, sizeof(event));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle) {
  // An event of its own: nothing is asynchronous.
  *event =
      reinterpret_cast<CUevent>(new FakeEvent{CU_EVENT_DISABLE_TIMING, 0, {}});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  return allocate(memory, bytes);
}
CUresult CUDAAPI cuMemFreeHost(void *memory) { return release(memory); }
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory,
                                           unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return isKnown(*address, 8) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total) {
  *available = 1;
  *total = 2;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuPointerGetAttributes(unsigned count, CUpointer_attribute *,
                                        void **data, CUdeviceptr address) {
  for (unsigned i = 0; i < count; ++i)
    *static_cast<unsigned *>(data[i]) =
        isKnown(address, 1) ? CU_MEMORYTYPE_DEVICE : 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags) {
  if (!hasContext || flags != CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  *stream = reinterpret_cast<CUstream>(new FakeStream);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  delete get(stream);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  return get(stream)->condition.holds() ? CUDA_SUCCESS
                                        : CUDA_ERROR_LAUNCH_TIMEOUT;
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                               CUstream stream) {
  // A copy between device addresses may be captured.
  if (hasContext && stream && get(stream)->capture && isKnown(to, bytes) &&
      isKnown(from, bytes)) {
    get(stream)->capture->works.push_back(
        [=] { std::memcpy(at(to), at(from), bytes); });
    return CUDA_SUCCESS;
  }
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  std::memcpy(at(to), at(from), bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                 size_t bytes, CUstream stream) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  if (!isKnown(to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(at(to), value, bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
                                      cuuint64_t value, unsigned) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  __atomic_store_n(reinterpret_cast<uint64_t *>(address), value,
                   __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}
/// What has to wait runs at once all the same; only who waits for it learns of
/// a value that is not there.
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address,
                                     cuuint64_t value, unsigned flags) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !isKnown(address, sizeof(value)))
    return CUDA_ERROR_INVALID_VALUE;
  get(stream)->condition = {reinterpret_cast<const uint64_t *>(address), value};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function,
                                  void *data) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  function(data);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags) {
  if (!hasContext)
    return CUDA_ERROR_INVALID_CONTEXT;
  *event = reinterpret_cast<CUevent>(new FakeEvent{flags, 0, {}});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventDestroy(CUevent event) {
  delete get(event);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  if (get(stream)->condition.word)
    get(event)->condition = get(stream)->condition;
  // Other streams may ask about an event without timing, so nothing is
  // written there.
  if (!(get(event)->flags & CU_EVENT_DISABLE_TIMING))
    get(event)->nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::steady_clock::now().time_since_epoch())
            .count();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  if (!hasContext)
    return CUDA_ERROR_INVALID_CONTEXT;
  return get(event)->condition.holds() ? CUDA_SUCCESS
                                       : CUDA_ERROR_LAUNCH_TIMEOUT;
}
CUresult CUDAAPI cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent, unsigned) {
  return check(stream);
}
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start,
                                    CUevent end) {
  if ((get(start)->flags | get(end)->flags) & CU_EVENT_DISABLE_TIMING)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds =
      static_cast<float>(get(end)->nanoseconds - get(start)->nanoseconds) *
      1e-6f;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream,
                                      CUstreamCaptureMode mode) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    return CUDA_ERROR_INVALID_VALUE;
  get(stream)->capture = new FakeGraph;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  if (!get(stream)->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  *graph = reinterpret_cast<CUgraph>(get(stream)->capture);
  get(stream)->capture = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *, size_t *count) {
  *count = reinterpret_cast<FakeGraph *>(graph)->works.size();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph,
                                    unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(
      new FakeGraph(*reinterpret_cast<FakeGraph *>(graph)));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<FakeGraph *>(graph);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  delete reinterpret_cast<FakeGraph *>(executable);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphUpload(CUgraphExec, CUstream stream) {
  return check(stream);
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  if (CUresult result = check(stream); result != CUDA_SUCCESS)
    return result;
  for (const Work &work : reinterpret_cast<FakeGraph *>(executable)->works)
    work();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image,
                                    unsigned count, CUjit_option *options,
                                    void **values) {
  std::string text = static_cast<const char *>(image);
  if (text == "other chip")
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (text.find("version 99") != std::string::npos) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
        std::strcpy(static_cast<char *>(values[i]), "fake log of the JIT");
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  *module = reinterpret_cast<CUmodule>(new std::string(text));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<std::string *>(module);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module,
                                     const char *name) {
  // A module has the kernels that its text names.
  const std::string &text = *reinterpret_cast<std::string *>(module);
  if (text.find(name) == std::string::npos)
    return CUDA_ERROR_NOT_FOUND;
  static std::map<std::string, int> names;
  std::lock_guard<std::mutex> lock(mutex);
  *function = reinterpret_cast<CUfunction>(
      const_cast<std::string *>(&names.try_emplace(name).first->first));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned gridX,
                                unsigned gridY, unsigned gridZ, unsigned blockX,
                                unsigned blockY, unsigned blockZ,
                                unsigned sharedBytes, CUstream stream,
                                void **parameters, void **extra) {
  if (!hasContext || !stream)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (gridX == 0 || blockX == 0 || blockX > 1024 || gridY != 1 || gridZ != 1 ||
      blockY != 1 || blockZ != 1 || sharedBytes || extra)
    return CUDA_ERROR_INVALID_VALUE;
  Work work = makeWork(*reinterpret_cast<std::string *>(function), gridX,
                       blockX, parameters);
  if (get(stream)->capture)
    get(stream)->capture->works.push_back(std::move(work));
  else
    work();
  return CUDA_SUCCESS;
}

} // extern "C"
