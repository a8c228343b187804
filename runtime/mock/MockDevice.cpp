//===- MockDevice.cpp -----------------------------------------------------===//
#include "mock/MockDevice.h"
#include "device/CpuKernel.h"
#include "device/DeviceRegistry.h"
#include "mock/MockLink.h"
#include "mock/MockProgram.h"
#include "support/Clock.h"
#include "support/Error.h"
#include "support/FlushDenormals.h"
#include "support/Thread.h"

#include <cstring>
#include <exception>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace pp::runtime;

namespace {

using Work = std::function<void()>;

/// Waits without a lock or a condition variable: both would order more than
/// they have to and hide missing events from ThreadSanitizer.
template <typename Condition> void poll(Condition condition) {
  for (unsigned round = 0; !condition(); ++round)
    if (round < 200)
      std::this_thread::yield();
    else if (round < 2000)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    else // so long that it shall not look like computing
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

class MockEvent : public Event {
public:
  MockEvent() : counts(&ownCounts) {}
  /// The counts are at the start of `memory`, which processes share.
  explicit MockEvent(DeviceMemory memory)
      : memory(std::move(memory)),
        counts(reinterpret_cast<Counts *>(this->memory.get())) {}

  /// In the recording thread: the number of this record.
  uint64_t addRecord() {
    return counts->recorded.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  uint64_t getRecord() const {
    return counts->recorded.load(std::memory_order_relaxed);
  }
  /// In the stream's thread.
  void complete(uint64_t record, const std::exception_ptr &error) {
    if (error)
      failure = error;
    counts->reached.store(record, std::memory_order_release);
  }
  bool isReached(uint64_t record) const {
    return counts->reached.load(std::memory_order_acquire) >= record;
  }
  void waitFor(uint64_t record) const {
    poll([&] { return isReached(record); });
  }
  bool isReached() override { return isReached(getRecord()); }
  void synchronize() override {
    waitFor(getRecord());
    if (failure)
      std::rethrow_exception(failure);
  }

  struct Counts {
    std::atomic<uint64_t> recorded{0}, reached{0};
  };

private:
  DeviceMemory memory;
  Counts ownCounts;
  Counts *counts;
  std::exception_ptr failure; // written before `reached`
};

class MockGraph : public Graph {
public:
  std::vector<Work> works;
};

struct Item {
  Work work; // null: the end of the stream
  /// Runs after a failure too, so that nobody waits for ever.
  bool isControl = false;
};

/// A queue with one writer and one reader. The writer reads nothing that the
/// reader writes.
class WorkQueue {
public:
  WorkQueue() : first(new Node), last(first) {}
  ~WorkQueue() {
    while (first) {
      Node *next = first->next.load(std::memory_order_relaxed);
      delete first;
      first = next;
    }
  }
  WorkQueue(const WorkQueue &) = delete;
  WorkQueue &operator=(const WorkQueue &) = delete;

  void push(Item item) {
    Node *node = new Node;
    node->item = std::move(item);
    Node *previous = last;
    last = node;
    previous->next.store(node, std::memory_order_release);
  }
  Item pop() {
    Node *next = nullptr;
    poll([&] {
      next = first->next.load(std::memory_order_acquire);
      return next != nullptr;
    });
    delete first;
    first = next;
    return std::move(first->item);
  }

private:
  struct Node {
    Item item;
    std::atomic<Node *> next{nullptr};
  };
  Node *first; // the reader's; its item was taken
  Node *last;  // the writer's
};

class MockStream : public Stream {
public:
  MockStream(const MockOptions &options, uint32_t seed)
      : options(options), random(seed),
        thread(startThread("a stream", [this] { main(); })) {
    pthread_getcpuclockid(thread.native_handle(), &clock);
  }
  ~MockStream() override {
    queue.push({});
    thread.join();
  }

  void copy(void *to, const void *from, uint64_t bytes) override {
    notWhileCapturing("copy");
    queue.push({[=] { std::memcpy(to, from, bytes); }});
  }
  void clear(void *to, uint64_t bytes) override {
    notWhileCapturing("clear");
    queue.push({[=] { std::memset(to, 0, bytes); }});
  }
  void execute(Work work) override {
    if (capture)
      capture->works.push_back(std::move(work));
    else
      queue.push({std::move(work)});
  }
  void record(Event &event) override {
    notWhileCapturing("record");
    auto &mock = static_cast<MockEvent &>(event);
    queue.push({[this, &mock, record = mock.addRecord()] {
                  mock.complete(record, failure);
                },
                /*isControl=*/true});
  }
  void wait(Event &event) override {
    notWhileCapturing("wait");
    auto &mock = static_cast<MockEvent &>(event);
    if (uint64_t record = mock.getRecord())
      queue.push({[&mock, record] { mock.waitFor(record); }});
  }
  void timestamp(int64_t &to) override {
    notWhileCapturing("timestamp");
    // In the work of execute().
    if (running == this) {
      to = steadyNanoseconds();
      return;
    }
    queue.push({[&to] { to = steadyNanoseconds(); }});
  }
  void count(std::atomic<uint64_t> &counter) override {
    notWhileCapturing("count");
    queue.push(
        {[&counter] { counter.fetch_add(1, std::memory_order_relaxed); }});
  }
  clockid_t computeClock() const override { return clock; }
  void beginCapture() override {
    notWhileCapturing("beginCapture");
    capture = std::make_unique<MockGraph>();
  }
  std::unique_ptr<Graph> endCapture() override {
    if (!capture)
      failInternal("mock: endCapture without beginCapture");
    return std::move(capture);
  }
  void launch(Graph &graph) override {
    notWhileCapturing("launch");
    queue.push({[&graph] {
      for (const Work &work : static_cast<MockGraph &>(graph).works)
        work();
    }});
  }

private:
  void notWhileCapturing(const char *what) {
    if (capture)
      failInternal("mock: {} while a graph is captured", what);
  }

  void main() {
    flushDenormals();
    running = this;
    while (true) {
      Item item = queue.pop();
      if (!item.work)
        return;
      pause();
      if (failure && !item.isControl)
        continue;
      try {
        item.work();
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }

  void pause() {
    if (options.maxPauseMicroseconds == 0)
      return;
    random = random * 1664525 + 1013904223;
    std::this_thread::sleep_for(std::chrono::microseconds(
        (random >> 16) % (options.maxPauseMicroseconds + 1)));
  }

  /// The one whose thread this is.
  static thread_local const MockStream *running;

  MockOptions options;
  uint32_t random;
  std::unique_ptr<MockGraph> capture; // the giving thread's
  std::exception_ptr failure;         // the stream thread's
  WorkQueue queue;
  std::thread thread;
  clockid_t clock{};
};
thread_local const MockStream *MockStream::running = nullptr;

class MockDevice : public Device {
public:
  explicit MockDevice(const MockOptions &options) : options(options) {}

  std::string getName() const override { return "mock"; }
  bool isHostMemory() const override { return false; }
  bool hasGraphs() const override { return true; }
  DeviceMemory allocate(uint64_t bytes, const std::string &what) override {
    return allocateHostMemory(bytes, what);
  }
  std::unique_ptr<Stream> createStream() override {
    return std::make_unique<MockStream>(options, ++streams);
  }
  std::unique_ptr<Event> createEvent() override {
    return std::make_unique<MockEvent>();
  }
  DeviceMemory allocateShared(uint64_t bytes, const std::string &what,
                              SharedHandle &handle) override {
    return allocateSharedHostMemory(bytes, what, handle);
  }
  DeviceMemory openShared(const SharedHandle &handle) override {
    return openSharedHostMemory(handle);
  }
  std::unique_ptr<Event> createSharedEvent(SharedHandle &handle) override {
    DeviceMemory memory =
        allocateSharedHostMemory(sizeof(MockEvent::Counts), "an event", handle);
    new (memory.get()) MockEvent::Counts;
    return std::make_unique<MockEvent>(std::move(memory));
  }
  std::unique_ptr<Event> openSharedEvent(const SharedHandle &handle) override {
    return std::make_unique<MockEvent>(openSharedHostMemory(handle));
  }
  std::string createLinkName() override { return createMockLinkName(); }
  std::unique_ptr<Link> openLink(const std::string &name,
                                 bool isSender) override {
    return openMockLink(name, isSender);
  }
  bool runs(const std::string &target) const override {
    return target == "cpu" || target == "mock";
  }
  std::unique_ptr<DeviceProgram> load(const pp_pipeline &program) override {
    // A program for the processor has no mock kernels and does not ask for
    // any.
    return std::make_unique<MockProgram>(program);
  }

private:
  MockOptions options;
  std::atomic<uint32_t> streams{0};
};

} // namespace

std::unique_ptr<Device>
pp::runtime::createMockDevice(const MockOptions &options) {
  return std::make_unique<MockDevice>(options);
}

static std::shared_ptr<Device> openMock(std::string_view, unsigned) {
  return createMockDevice();
}
static RegisterDevice registration({"mock", "mock", openMock});
