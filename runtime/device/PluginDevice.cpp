//===- PluginDevice.cpp - The device interfaces over the C table ----------===//
#include "device/PluginDevice.h"
#include "cpu/LibraryKernel.h"
#include "plan/Plan.h"
#include "support/Error.h"

#include <array>
#include <cstring>
#include <map>
#include <new>

using namespace pp::runtime;

namespace {

/// Calls a function of the table whose last parameter is the error, and throws
/// that.
template <typename Function, typename... Args>
void call(Function function, Args... args) {
  pp_device_error error;
  error.exit_code = 0;
  error.text[0] = 0;
  if (function(args..., &error) == 0)
    return;
  error.text[sizeof(error.text) - 1] = 0;
  ErrorKind kind = ErrorKind::Internal;
  for (ErrorKind known :
       {ErrorKind::InvalidInput, ErrorKind::Usage, ErrorKind::IO})
    if (static_cast<int>(known) == error.exit_code)
      kind = known;
  throw Error(kind, error.text);
}

class PluginEvent : public Event {
public:
  PluginEvent(const pp_device_table &table, pp_device *device) : table(table) {
    call(table.event_create, device, &handle);
  }
  /// Takes the event over.
  PluginEvent(const pp_device_table &table, pp_device_event *handle)
      : table(table), handle(handle) {}
  ~PluginEvent() override { table.event_destroy(handle); }
  PluginEvent(const PluginEvent &) = delete;
  PluginEvent &operator=(const PluginEvent &) = delete;

  void synchronize() override { call(table.event_synchronize, handle); }
  bool isReached() override { return table.event_is_reached(handle); }
  pp_device_event *getHandle() const { return handle; }

private:
  const pp_device_table &table;
  pp_device_event *handle = nullptr;
};

class PluginGraph : public Graph {
public:
  PluginGraph(const pp_device_table &table, pp_device_graph *handle)
      : table(table), handle(handle) {}
  ~PluginGraph() override { table.graph_destroy(handle); }
  PluginGraph(const PluginGraph &) = delete;
  PluginGraph &operator=(const PluginGraph &) = delete;

  pp_device_graph *getHandle() const { return handle; }

private:
  const pp_device_table &table;
  pp_device_graph *handle;
};

class PluginStream : public Stream {
public:
  pp_device_stream *getHandle() const { return handle; }

  PluginStream(const pp_device_table &table, pp_device *device)
      : table(table), device(device) {
    call(table.stream_create, device, &handle);
  }
  ~PluginStream() override { table.stream_destroy(handle); }
  PluginStream(const PluginStream &) = delete;
  PluginStream &operator=(const PluginStream &) = delete;

  void copy(void *to, const void *from, uint64_t bytes) override {
    call(table.stream_copy, handle, to, from, bytes);
  }
  void clear(void *to, uint64_t bytes) override {
    call(table.stream_clear, handle, to, bytes);
  }
  void execute(std::function<void()> work) override {
    call(table.stream_enter, handle);
    struct Leave {
      PluginStream &stream;
      ~Leave() { stream.table.stream_leave(stream.handle); }
    } leave{*this};
    work();
  }
  // The work runs in the calling thread, and only enqueues kernels.
  void read(void *to, const void *from, uint64_t bytes) override {
    PluginEvent done(table, device);
    copy(to, from, bytes);
    record(done);
    done.synchronize();
  }
  void record(Event &event) override {
    call(table.stream_record, handle, handleOf(event));
  }
  void wait(Event &event) override {
    call(table.stream_wait, handle, handleOf(event));
  }
  void timestamp(int64_t &to) override {
    call(table.stream_timestamp, handle, &to);
  }
  void hold() override { call(table.stream_hold, handle); }
  void release() override { table.stream_release(handle); }
  void count(std::atomic<uint64_t> &counter) override {
    auto [entry, isNew] = counts.try_emplace(&counter, 0);
    if (isNew)
      entry->second = counter.load(std::memory_order_relaxed);
    call(table.stream_count, handle, reinterpret_cast<uint64_t *>(&counter),
         ++entry->second);
  }
  void beginCapture() override { call(table.stream_begin_capture, handle); }
  std::unique_ptr<Graph> endCapture() override {
    pp_device_graph *graph = nullptr;
    call(table.stream_end_capture, handle, &graph);
    return std::make_unique<PluginGraph>(table, graph);
  }
  void launch(Graph &graph) override {
    call(table.stream_launch, handle,
         static_cast<PluginGraph &>(graph).getHandle());
  }

private:
  static pp_device_event *handleOf(Event &event) {
    return static_cast<PluginEvent &>(event).getHandle();
  }

  const pp_device_table &table;
  pp_device *device;
  pp_device_stream *handle = nullptr;
  /// What the counters will be when the stream has run everything so far.
  std::map<std::atomic<uint64_t> *, uint64_t> counts;
};

class PluginKernel : public Kernel {
public:
  PluginKernel(const pp_device_table &table, pp_device_program *program,
               const PlanKernel &kernel)
      : table(table), descriptor(kernel.descriptor) {
    call(table.kernel_create, program, descriptor.c_str(), kernel.scratchpad,
         &handle);
  }
  ~PluginKernel() override { table.kernel_destroy(handle); }
  PluginKernel(const PluginKernel &) = delete;
  PluginKernel &operator=(const PluginKernel &) = delete;

  bool execute(void *const *tensors, void *scratchpad) noexcept override {
    try {
      call(table.kernel_execute, handle, tensors, scratchpad);
      return true;
    } catch (const std::exception &e) {
      keepKernelError("kernel '" + descriptor + "': " + e.what());
      return false;
    }
  }

private:
  const pp_device_table &table;
  std::string descriptor;
  pp_device_kernel *handle = nullptr;
};

class PluginProgram : public DeviceProgram {
public:
  PluginProgram(const pp_device_table &table, pp_device *device,
                const pp_pipeline &program)
      : table(table) {
    call(table.program_load, device, program.device_code, &handle);
  }
  ~PluginProgram() override { table.program_unload(handle); }
  PluginProgram(const PluginProgram &) = delete;
  PluginProgram &operator=(const PluginProgram &) = delete;

  std::unique_ptr<Kernel> createKernel(const PlanKernel &kernel,
                                       std::string &error) override {
    try {
      return std::make_unique<PluginKernel>(table, handle, kernel);
    } catch (const Error &e) {
      error = "kernel '" + kernel.descriptor + "': " + e.what();
      return nullptr;
    }
  }

private:
  const pp_device_table &table;
  pp_device_program *handle = nullptr;
};

class PluginLink : public Link {
public:
  PluginLink(const pp_device_table &table, pp_device *device,
             const std::string &name, bool isSender)
      : table(table) {
    pp_device_link_name bytes{};
    if (name.size() != sizeof(bytes))
      failInternal("a link's name has {} bytes", name.size());
    std::memcpy(&bytes, name.data(), sizeof(bytes));
    call(table.link_open, device, &bytes, isSender, &handle);
  }
  ~PluginLink() override { table.link_close(handle); }
  PluginLink(const PluginLink &) = delete;
  PluginLink &operator=(const PluginLink &) = delete;

  bool isOpen() override {
    int32_t result = 0;
    call(table.link_is_open, handle, &result);
    return result;
  }
  void send(Stream &stream, const void *data, uint64_t bytes) override {
    call(table.link_send, handle, handleOf(stream), data, bytes);
  }
  void receive(Stream &stream, void *data, uint64_t bytes) override {
    call(table.link_receive, handle, handleOf(stream), data, bytes);
  }
  void abort() noexcept override { table.link_abort(handle); }

private:
  static pp_device_stream *handleOf(Stream &stream) {
    return static_cast<PluginStream &>(stream).getHandle();
  }

  const pp_device_table &table;
  pp_device_link *handle = nullptr;
};

class PluginDevice : public Device {
public:
  PluginDevice(const pp_device_table &table, unsigned number, std::string name)
      : table(table), name(std::move(name)) {
    call(table.device_open, number, &handle);
  }
  ~PluginDevice() override { table.device_close(handle); }
  PluginDevice(const PluginDevice &) = delete;
  PluginDevice &operator=(const PluginDevice &) = delete;

  std::string getName() const override { return name; }
  std::string describe() const override {
    std::array<char, 256> text{};
    table.device_describe(handle, text.data(), text.size());
    return text.data();
  }
  void beginRange(const char *range) override {
    table.device_begin_range(handle, range);
  }
  void endRange() override { table.device_end_range(handle); }
  bool isHostMemory() const override {
    return table.device_is_host_memory(handle);
  }
  bool hasGraphs() const override { return table.device_has_graphs(handle); }
  DeviceMemory allocateHost(uint64_t bytes, const std::string &what) override {
    void *memory = nullptr;
    try {
      call(table.host_allocate, handle, bytes, &memory);
    } catch (const Error &error) {
      throw Error(error.getKind(), fmt::format("{}: {}", what, error.what()));
    }
    std::memset(memory, 0, bytes);
    return {static_cast<char *>(memory),
            [this](char *pointer) { table.host_free(handle, pointer); }};
  }
  DeviceMemory allocate(uint64_t bytes, const std::string &what) override {
    void *memory = nullptr;
    try {
      call(table.memory_allocate, handle, bytes, &memory);
    } catch (const Error &e) {
      throw Error(ErrorKind::IO, what + ": " + e.what());
    }
    return DeviceMemory(static_cast<char *>(memory), [this](char *pointer) {
      table.memory_free(handle, pointer);
    });
  }
  DeviceMemory allocateShared(uint64_t bytes, const std::string &what,
                              SharedHandle &handle) override {
    void *memory = nullptr;
    pp_device_handle bytesOfHandle{};
    try {
      call(table.memory_allocate_shared, this->handle, bytes, &memory,
           &bytesOfHandle);
    } catch (const Error &error) {
      throw Error(ErrorKind::IO, fmt::format("{}: {}", what, error.what()));
    }
    handle = toText(bytesOfHandle);
    return {static_cast<char *>(memory), [this](char *pointer) {
              table.memory_free(this->handle, pointer);
            }};
  }
  DeviceMemory openShared(const SharedHandle &handle) override {
    void *memory = nullptr;
    pp_device_handle bytes = toHandle(handle);
    call(table.memory_open, this->handle, &bytes, &memory);
    return {static_cast<char *>(memory), [this](char *pointer) {
              table.memory_close(this->handle, pointer);
            }};
  }
  std::unique_ptr<Event> createSharedEvent(SharedHandle &handle) override {
    pp_device_event *event = nullptr;
    pp_device_handle bytes{};
    call(table.event_create_shared, this->handle, &event, &bytes);
    handle = toText(bytes);
    return std::make_unique<PluginEvent>(table, event);
  }
  std::unique_ptr<Event> openSharedEvent(const SharedHandle &handle) override {
    pp_device_event *event = nullptr;
    pp_device_handle bytes = toHandle(handle);
    call(table.event_open, this->handle, &bytes, &event);
    return std::make_unique<PluginEvent>(table, event);
  }
  std::string createLinkName() override {
    pp_device_link_name name{};
    call(table.link_name, handle, &name);
    return {name.bytes, sizeof(name.bytes)};
  }
  std::unique_ptr<Link> openLink(const std::string &name,
                                 bool isSender) override {
    return std::make_unique<PluginLink>(table, handle, name, isSender);
  }
  DeviceCounter createCounter() override {
    static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t) &&
                  std::atomic<uint64_t>::is_always_lock_free);
    uint64_t *word = nullptr;
    call(table.counter_create, handle, &word);
    return DeviceCounter(new (word) std::atomic<uint64_t>(0),
                         [this, word](std::atomic<uint64_t> *) {
                           table.counter_destroy(handle, word);
                         });
  }
  std::unique_ptr<Stream> createStream() override {
    return std::make_unique<PluginStream>(table, handle);
  }
  std::unique_ptr<Event> createEvent() override {
    return std::make_unique<PluginEvent>(table, handle);
  }
  bool runs(const std::string &target) const override {
    return table.device_runs(handle, target.c_str());
  }
  std::unique_ptr<DeviceProgram> load(const pp_pipeline &program) override {
    return std::make_unique<PluginProgram>(table, handle, program);
  }

private:
  static SharedHandle toText(const pp_device_handle &handle) {
    return {handle.bytes, sizeof(handle.bytes)};
  }
  static pp_device_handle toHandle(const SharedHandle &text) {
    pp_device_handle handle{};
    if (text.size() != sizeof(handle.bytes))
      failInternal("a shared handle has {} bytes", text.size());
    std::memcpy(handle.bytes, text.data(), sizeof(handle.bytes));
    return handle;
  }

  const pp_device_table &table;
  std::string name;
  pp_device *handle = nullptr;
};

} // namespace

std::unique_ptr<Device>
pp::runtime::openPluginDevice(const pp_device_table &table, unsigned number,
                              const std::string &name) {
  return std::make_unique<PluginDevice>(table, number, name);
}
