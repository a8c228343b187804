//===- Stream.cpp ---------------------------------------------------------===//
#include "Stream.h"

#include <cstring>
#include <thread>

using namespace pp::cuda;

/// Copies of pageable memory above this go through the driver, which makes the
/// host wait, rather than through pinned memory of their size.
static constexpr uint64_t maxStagedBytes = uint64_t(64) << 20;

static thread_local CUstream currentStream = nullptr;

Event::Event(Context &context) : context(context) {
  const Driver &driver = context.enter();
  driver.check(driver.cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING |
                                                 CU_EVENT_BLOCKING_SYNC),
               "cuEventCreate");
}

Event::Event(Context &context, CUipcEventHandle &shared) : context(context) {
  const Driver &driver = context.enter();
  driver.check(driver.cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING |
                                                 CU_EVENT_INTERPROCESS),
               "cuEventCreate");
  CUresult result = driver.cuIpcGetEventHandle(&shared, handle);
  if (result != CUDA_SUCCESS) {
    driver.cuEventDestroy(handle);
    driver.check(result, "cuIpcGetEventHandle");
  }
}

Event::Event(Context &context, const CUipcEventHandle &shared)
    : context(context) {
  const Driver &driver = context.enter();
  driver.check(driver.cuIpcOpenEventHandle(&handle, shared),
               "cuIpcOpenEventHandle");
}

Event::~Event() {
  if (const Driver *driver = context.tryEnter())
    driver->cuEventDestroy(handle);
}

void Event::synchronize() {
  const Driver &driver = context.enter();
  driver.check(driver.cuEventSynchronize(handle), "the GPU's work failed");
  if (deferred)
    deferred->resolve(position);
}

bool Event::isReached() {
  return context.enter().cuEventQuery(handle) != CUDA_ERROR_NOT_READY;
}

Graph::Graph(Context &context, CUgraph graph, CUstream stream)
    : context(context) {
  const Driver &driver = context.enter();
  size_t nodes = 0;
  CUresult result = driver.cuGraphGetNodes(graph, nullptr, &nodes);
  if (result == CUDA_SUCCESS && nodes != 0)
    result = driver.cuGraphInstantiate(&executable, graph, 0);
  driver.cuGraphDestroy(graph);
  driver.check(result, "cannot make a CUDA graph");
  // So that the first launch does not pay for it.
  if (executable)
    driver.check(driver.cuGraphUpload(executable, stream), "cuGraphUpload");
}

Graph::~Graph() {
  const Driver *driver = context.tryEnter();
  if (executable && driver)
    driver->cuGraphExecDestroy(executable);
}

Stream::Stream(Context &context) : context(context) {
  const Driver &driver = context.enter();
  driver.check(driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING),
               "cuStreamCreate");
  deferred = std::make_shared<DeferredHostWork>(context, handle);
}

Stream::~Stream() {
  release();
  const Driver *driver = context.tryEnter();
  if (!driver)
    return;
  if (isCapturing) {
    CUgraph graph = nullptr;
    driver->cuStreamEndCapture(handle, &graph);
    if (graph)
      driver->cuGraphDestroy(graph);
  }
  try {
    if (driver->cuStreamSynchronize(handle) == CUDA_SUCCESS)
      deferred->resolve(deferred->getPosition());
  } catch (const std::exception &) {
    // An event has reported the error, or will.
    deferred.reset();
  }
  driver->cuStreamDestroy(handle);
  context.givePinned(releases);
}

static CUdeviceptr toDevice(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Whether CUDA knows nothing of the memory. The function for one attribute
/// calls that an error, which compute-sanitizer reports.
static bool isPageable(const Driver &driver, const void *pointer) {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void *result = &type;
  driver.check(
      driver.cuPointerGetAttributes(1, &attribute, &result, toDevice(pointer)),
      "cuPointerGetAttributes");
  return type == 0;
}

void Stream::copyPlainly(void *to, const void *from, uint64_t bytes) {
  const Driver &driver = context.enter();
  driver.check(
      driver.cuMemcpyAsync(toDevice(to), toDevice(from), bytes, handle),
      "cuMemcpyAsync");
}

void Stream::copy(void *to, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return;
  const Driver &driver = context.enter();
  bool isFromPageable = isPageable(driver, from);
  bool isToPageable = isPageable(driver, to);
  if (isFromPageable == isToPageable || bytes > maxStagedBytes)
    return copyPlainly(to, from, bytes);
  void *block = context.takePinned(bytes);
  if (isFromPageable) {
    std::memcpy(block, from, bytes);
    copyPlainly(to, block, bytes);
    deferred->addPinned(block, nullptr, 0);
  } else {
    copyPlainly(block, from, bytes);
    deferred->addPinned(block, to, bytes);
  }
}

void Stream::clear(void *to, uint64_t bytes) {
  if (bytes == 0)
    return;
  const Driver &driver = context.enter();
  driver.check(driver.cuMemsetD8Async(toDevice(to), 0, bytes, handle),
               "cuMemsetD8Async");
}

void Stream::record(Event &event) {
  const Driver &driver = context.enter();
  driver.check(driver.cuEventRecord(event.handle, handle), "cuEventRecord");
  event.deferred = deferred;
  event.position = deferred->getPosition();
}

void Stream::wait(Event &event) {
  const Driver &driver = context.enter();
  driver.check(driver.cuStreamWaitEvent(handle, event.handle, 0),
               "cuStreamWaitEvent");
}

void Stream::timestamp(int64_t &to) { deferred->addTimestamp(handle, to); }

namespace {
struct HostWait {
  const uint64_t *word;
  uint64_t value;
};
} // namespace

static void CUDA_CB waitForWord(void *data) {
  std::unique_ptr<HostWait> wait(static_cast<HostWait *>(data));
  while (__atomic_load_n(wait->word, __ATOMIC_RELAXED) < wait->value)
    std::this_thread::yield();
}

void Stream::hold() {
  const Driver &driver = context.enter();
  if (!releases) {
    releases = static_cast<uint64_t *>(context.takePinned(sizeof(uint64_t)));
    __atomic_store_n(releases, holds, __ATOMIC_RELAXED);
  }
  if (context.hasStreamWrites()) {
    CUdeviceptr address = 0;
    driver.check(driver.cuMemHostGetDevicePointer(&address, releases, 0),
                 "cuMemHostGetDevicePointer");
    driver.check(driver.cuStreamWaitValue64(handle, address, holds + 1,
                                            CU_STREAM_WAIT_VALUE_GEQ),
                 "cuStreamWaitValue64");
    ++holds;
    return;
  }
  auto *data = new HostWait{releases, holds + 1};
  CUresult result = driver.cuLaunchHostFunc(handle, waitForWord, data);
  if (result != CUDA_SUCCESS)
    delete data;
  driver.check(result, "cuLaunchHostFunc");
  ++holds;
}

void Stream::release() noexcept {
  if (releases)
    __atomic_store_n(releases, holds, __ATOMIC_RELEASE);
}

namespace {
struct HostCount {
  uint64_t *counter;
  uint64_t value;
};
} // namespace

static void CUDA_CB setCounter(void *data) {
  std::unique_ptr<HostCount> count(static_cast<HostCount *>(data));
  __atomic_store_n(count->counter, count->value, __ATOMIC_RELAXED);
}

void Stream::count(uint64_t *counter, uint64_t value) {
  const Driver &driver = context.enter();
  if (context.hasStreamWrites()) {
    CUdeviceptr address = 0;
    driver.check(driver.cuMemHostGetDevicePointer(&address, counter, 0),
                 "cuMemHostGetDevicePointer");
    driver.check(driver.cuStreamWriteValue64(handle, address, value,
                                             CU_STREAM_WRITE_VALUE_DEFAULT),
                 "cuStreamWriteValue64");
    return;
  }
  // The function takes it over, if it is going to run.
  auto *data = new HostCount{counter, value};
  CUresult result = driver.cuLaunchHostFunc(handle, setCounter, data);
  if (result != CUDA_SUCCESS)
    delete data;
  driver.check(result, "cuLaunchHostFunc");
}

void Stream::beginCapture() {
  const Driver &driver = context.enter();
  driver.check(
      driver.cuStreamBeginCapture(handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
  isCapturing = true;
}

std::unique_ptr<Graph> Stream::endCapture() {
  const Driver &driver = context.enter();
  CUgraph graph = nullptr;
  isCapturing = false;
  driver.check(driver.cuStreamEndCapture(handle, &graph),
               "cannot capture a CUDA graph (--no-graphs runs without them)");
  return std::make_unique<Graph>(context, graph, handle);
}

void Stream::launch(Graph &graph) {
  const Driver &driver = context.enter();
  if (graph.executable)
    driver.check(driver.cuGraphLaunch(graph.executable, handle),
                 "cuGraphLaunch");
}

void Stream::enter() {
  context.enter();
  currentStream = handle;
}

void Stream::leave() { currentStream = nullptr; }

CUstream Stream::getCurrent() {
  if (!currentStream)
    throw Failure(Failure::Internal, "executed outside of a stream");
  return currentStream;
}
