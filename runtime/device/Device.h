//===- Device.h - Memory, streams and kernels of one device ---------------===//
//
// The executor uses no other interfaces of a device. A stream runs the work
// that is enqueued on it in order. On an asynchronous device, the call that
// enqueues work returns before the work has run. Only events order the work of
// two streams:
//
//   compute  ──F3──record(e)──F4──▶
//   send     ──────wait(e)──copy──▶
//
// Threading: one thread at a time enqueues work on a stream, records an event,
// or waits for it. Before a thread waits for an event that another thread
// records, it must know that the record was enqueued: the slot flags of the
// transports tell it.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_DEVICE_DEVICE_H
#define PP_RUNTIME_DEVICE_DEVICE_H

#include "kernel/Kernel.h"
#include "pprt/pprt.h"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <pthread.h>
#include <string>

namespace pp::runtime {

struct PlanKernel;

/// A point in a stream. Waiting for an event that was never recorded returns at
/// once.
class Event {
public:
  virtual ~Event() = default;
  /// The calling thread waits until the last record has been reached. Throws
  /// the first error of the stream that it was recorded on.
  virtual void synchronize() = 0;
  /// Whether synchronize() would return or throw at once.
  virtual bool isReached() = 0;
};

/// Work that was captured from a stream and can be launched again: the same
/// kernels on the same addresses.
class Graph {
public:
  virtual ~Graph() = default;
};

class Stream {
public:
  virtual ~Stream() = default;

  /// Copies between any two places of host and device memory.
  virtual void copy(void *to, const void *from, uint64_t bytes) = 0;
  virtual void clear(void *to, uint64_t bytes) = 0;

  /// Enqueues `work`, which computes on host memory or executes kernels. Where
  /// kernels are asynchronous, this call runs `work` itself, which enqueues its
  /// kernels. Everything that `work` refers to has to live until the kernels
  /// have run. A synchronous device throws what `work` throws; an asynchronous
  /// one throws it from Event::synchronize.
  virtual void execute(std::function<void()> work) = 0;

  /// In the `work` of execute(): copies what its kernels so far have written to
  /// host memory, and waits for that. Not while a graph is captured.
  virtual void read(void *to, const void *from, uint64_t bytes);

  virtual void record(Event &event) = 0;
  virtual void wait(Event &event) = 0;

  /// Sets `to` to the steady clock's nanoseconds when the stream gets here.
  /// Valid after an event that was recorded later has been waited for. Also in
  /// the `work` of execute(), between two kernels.
  virtual void timestamp(int64_t &to) = 0;
  /// For measurements: holds back all work that is enqueued from here on until
  /// release(), so that the device does not wait for the host between two
  /// kernels. Only timestamps and execute() are allowed between hold() and
  /// release(), with a few hundred kernels at most. Each of these kernels must
  /// have run once before. Does nothing where kernels are synchronous.
  virtual void hold() {}
  virtual void release() {}
  /// Adds one to `counter` when the stream gets here. `counter` is of
  /// Device::createCounter. Only one stream may count it; any thread may read
  /// it.
  virtual void count(std::atomic<uint64_t> &counter) = 0;

  /// The processor time of the thread that runs the work: the calling one,
  /// unless the device has others.
  virtual clockid_t computeClock() const {
    clockid_t clock{};
    pthread_getcpuclockid(pthread_self(), &clock);
    return clock;
  }

  /// Between the two calls only execute() is allowed; its kernels are kept in
  /// the graph and do not run. Only where Device::hasGraphs().
  virtual void beginCapture();
  virtual std::unique_ptr<Graph> endCapture();
  virtual void launch(Graph &graph);
};

/// Frees through the device that allocated.
using DeviceMemory = std::unique_ptr<char, std::function<void(char *)>>;

/// Freed through the device that made it.
using DeviceCounter =
    std::unique_ptr<std::atomic<uint64_t>,
                    std::function<void(std::atomic<uint64_t> *)>>;

/// The kernels of a program, ready to run on a device. Must outlive them.
class DeviceProgram {
public:
  virtual ~DeviceProgram() = default;
  /// Returns null and sets `error` where the descriptor is unknown or does not
  /// work here as the compiler planned it. Called in the thread that will
  /// execute the kernel.
  virtual std::unique_ptr<Kernel> createKernel(const PlanKernel &kernel,
                                               std::string &error) = 0;
};

/// A one-way connection from a stream of one device to a stream of another one,
/// on any machine. The receives of one end must have the order and the sizes of
/// the sends of the other end. One thread at a time uses an end.
class Link {
public:
  virtual ~Link() = default;
  /// Whether the other end has opened it too. Throws Error where that failed.
  virtual bool isOpen() = 0;
  /// The stream goes on when the other end has received.
  virtual void send(Stream &stream, const void *data, uint64_t bytes) = 0;
  virtual void receive(Stream &stream, void *data, uint64_t bytes) = 0;
  /// Lets both ends' streams go on, with whatever data. Any thread.
  virtual void abort() noexcept = 0;
};

/// Names memory or an event to another process of this machine: some bytes,
/// which only the device that made them understands.
using SharedHandle = std::string;

/// Objects that it made must not outlive it. Its functions may be called by any
/// thread.
class Device {
public:
  virtual ~Device() = default;

  /// "cpu", "mock", "cuda:0".
  virtual std::string getName() const = 0;
  /// What it is: "NVIDIA H200".
  virtual std::string describe() const { return getName(); }
  /// Whether the host may read and write its memory while no stream does.
  virtual bool isHostMemory() const = 0;
  virtual bool hasGraphs() const { return false; }

  /// `bytes` bytes, zeroed, at a multiple of 64. Throws Error(IO) with `what`
  /// in the message.
  virtual DeviceMemory allocate(uint64_t bytes, const std::string &what) = 0;
  /// The same on the host, where copies from and to the device are fastest.
  virtual DeviceMemory allocateHost(uint64_t bytes, const std::string &what);
  /// For Stream::count. Starts at zero.
  virtual DeviceCounter createCounter() {
    return DeviceCounter(new std::atomic<uint64_t>(0),
                         [](std::atomic<uint64_t> *it) { delete it; });
  }
  // Sharing with processes of this machine that have the same kind of device.
  // What another process has opened must be destroyed there first. All throw
  // Error; by default, that sharing is not possible.

  /// As allocate(); sets `handle` for openShared().
  virtual DeviceMemory allocateShared(uint64_t bytes, const std::string &what,
                                      SharedHandle &handle);
  virtual DeviceMemory openShared(const SharedHandle &handle);
  /// An event that this process records; sets `handle` for openSharedEvent().
  virtual std::unique_ptr<Event> createSharedEvent(SharedHandle &handle);
  /// Another process's event, to wait for on streams. The process must have
  /// learnt of the record first, as between threads.
  virtual std::unique_ptr<Event> openSharedEvent(const SharedHandle &handle);

  // Links to any process with the same kind of device. By default, there are
  // none: the functions throw Error.

  /// A new name, for openLink() at both ends.
  virtual std::string createLinkName();
  /// Returns before the other end has opened it.
  virtual std::unique_ptr<Link> openLink(const std::string &name,
                                         bool isSender);

  virtual std::unique_ptr<Stream> createStream() = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  /// Names the work that the calling thread enqueues until endRange(), for a
  /// profiler. Ranges nest.
  virtual void beginRange(const char *) {}
  virtual void endRange() {}
  /// Whether it runs programs for the target ("cpu", "cuda:sm_90").
  virtual bool runs(const std::string &target) const = 0;
  /// Loads the code of a program that the device runs. `program` has to outlive
  /// the result.
  /// Throws Error.
  virtual std::unique_ptr<DeviceProgram> load(const pp_pipeline &program) = 0;
};

/// A range of the calling thread as long as the object lives.
class DeviceRange {
public:
  DeviceRange(Device &device, const std::string &name) : device(device) {
    device.beginRange(name.c_str());
  }
  ~DeviceRange() { device.endRange(); }
  DeviceRange(const DeviceRange &) = delete;
  DeviceRange &operator=(const DeviceRange &) = delete;

private:
  Device &device;
};

/// The processor: streams run everything in the calling thread, at once.
Device &getCpuDevice();

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_DEVICE_H
