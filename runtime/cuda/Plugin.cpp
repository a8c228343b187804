//===- Plugin.cpp - The table of functions that the runtime calls ---------===//
#include "CudaKernel.h"
#include "Libraries.h"
#include "Link.h"
#include "Ranges.h"
#include "Stream.h"
#include "pprt/device.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

using namespace pp::cuda;

// What the opaque types are.
struct pp_device {
  Context context;
  Libraries libraries;
  explicit pp_device(unsigned number) : context(number), libraries(context) {}
};
struct pp_device_stream {
  Stream stream;
};
struct pp_device_event {
  Event event;
};
struct pp_device_graph {
  std::unique_ptr<Graph> graph;
};
struct pp_device_program {
  pp_device &device;
  std::optional<Module> code;
};
struct pp_device_kernel {
  std::unique_ptr<Kernel> kernel;
};
struct pp_device_link {
  Link link;
};

static_assert(sizeof(pp_device_handle) == sizeof(CUipcMemHandle) &&
              sizeof(pp_device_handle) == sizeof(CUipcEventHandle) &&
              sizeof(pp_device_link_name) == sizeof(ncclUniqueId));

/// Another view of the same bytes.
template <typename To, typename From> static To convert(const From &from) {
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

/// Runs `work` and turns what it throws into an error.
template <typename Work>
static int32_t guard(pp_device_error *error, Work work) noexcept {
  auto report = [&](int32_t code, const char *text) {
    error->exit_code = code;
    std::snprintf(error->text, sizeof(error->text), "%s", text);
    return 1;
  };
  try {
    work();
    return 0;
  } catch (const Failure &e) {
    return report(e.getKind(), e.what());
  } catch (const std::bad_alloc &) {
    return report(Failure::System, "out of memory");
  } catch (const std::exception &e) {
    return report(Failure::Internal, e.what());
  } catch (...) {
    return report(Failure::Internal, "an unknown exception");
  }
}

static int32_t openDevice(uint32_t number, pp_device **device,
                          pp_device_error *error) {
  return guard(error, [&] {
    initializeRanges();
    *device = new pp_device(number);
  });
}
static void closeDevice(pp_device *device) { delete device; }
static int32_t isHostMemory(pp_device *) { return 0; }
static int32_t hasGraphs(pp_device *) { return 1; }
static int32_t runs(pp_device *, const char *target) {
  return std::strncmp(target, "cuda:", 5) == 0;
}

static void describe(pp_device *device, char *text, uint64_t bytes) {
  std::snprintf(text, bytes, "%s", device->context.getName().c_str());
}
static void beginRange(pp_device *, const char *name) {
  pp::cuda::beginRange(name);
}
static void endRange(pp_device *) { pp::cuda::endRange(); }

static int32_t allocate(pp_device *device, uint64_t bytes, void **memory,
                        pp_device_error *error) {
  return guard(error, [&] { *memory = device->context.allocate(bytes); });
}
static void freeMemory(pp_device *device, void *memory) {
  device->context.free(memory);
}
static uint32_t countDevices() {
  try {
    int count = 0;
    const Driver &driver = getDriver();
    driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    return static_cast<uint32_t>(count);
  } catch (const std::exception &) {
    return 0;
  }
}
static int32_t allocateHost(pp_device *device, uint64_t bytes, void **memory,
                            pp_device_error *error) {
  return guard(error, [&] { *memory = device->context.takePinned(bytes); });
}
static void freeHost(pp_device *device, void *memory) {
  device->context.givePinned(memory);
}
static int32_t allocateShared(pp_device *device, uint64_t bytes, void **memory,
                              pp_device_handle *handle,
                              pp_device_error *error) {
  return guard(error, [&] {
    CUipcMemHandle shared;
    *memory = device->context.allocateShared(bytes, shared);
    *handle = convert<pp_device_handle>(shared);
  });
}
static int32_t openShared(pp_device *device, const pp_device_handle *handle,
                          void **memory, pp_device_error *error) {
  return guard(error, [&] {
    *memory = device->context.openShared(convert<CUipcMemHandle>(*handle));
  });
}
static void closeShared(pp_device *device, void *memory) {
  device->context.closeShared(memory);
}
static int32_t createCounter(pp_device *device, uint64_t **counter,
                             pp_device_error *error) {
  return guard(error, [&] {
    *counter =
        static_cast<uint64_t *>(device->context.takePinned(sizeof(uint64_t)));
    **counter = 0;
  });
}
static void destroyCounter(pp_device *device, uint64_t *counter) {
  device->context.givePinned(counter);
}

static int32_t createEvent(pp_device *device, pp_device_event **event,
                           pp_device_error *error) {
  return guard(error,
               [&] { *event = new pp_device_event{Event(device->context)}; });
}
static int32_t createSharedEvent(pp_device *device, pp_device_event **event,
                                 pp_device_handle *handle,
                                 pp_device_error *error) {
  return guard(error, [&] {
    CUipcEventHandle shared;
    *event = new pp_device_event{Event(device->context, shared)};
    *handle = convert<pp_device_handle>(shared);
  });
}
static int32_t openEvent(pp_device *device, const pp_device_handle *handle,
                         pp_device_event **event, pp_device_error *error) {
  return guard(error, [&] {
    const auto shared = convert<CUipcEventHandle>(*handle);
    *event = new pp_device_event{Event(device->context, shared)};
  });
}
static void destroyEvent(pp_device_event *event) { delete event; }
static int32_t synchronize(pp_device_event *event, pp_device_error *error) {
  return guard(error, [&] { event->event.synchronize(); });
}
static int32_t isReached(pp_device_event *event) {
  return event->event.isReached();
}

static int32_t createStream(pp_device *device, pp_device_stream **stream,
                            pp_device_error *error) {
  return guard(
      error, [&] { *stream = new pp_device_stream{Stream(device->context)}; });
}
static void destroyStream(pp_device_stream *stream) { delete stream; }
static int32_t copy(pp_device_stream *stream, void *to, const void *from,
                    uint64_t bytes, pp_device_error *error) {
  return guard(error, [&] { stream->stream.copy(to, from, bytes); });
}
static int32_t clear(pp_device_stream *stream, void *to, uint64_t bytes,
                     pp_device_error *error) {
  return guard(error, [&] { stream->stream.clear(to, bytes); });
}
static int32_t enter(pp_device_stream *stream, pp_device_error *error) {
  return guard(error, [&] { stream->stream.enter(); });
}
static void leave(pp_device_stream *) { Stream::leave(); }
static int32_t record(pp_device_stream *stream, pp_device_event *event,
                      pp_device_error *error) {
  return guard(error, [&] { stream->stream.record(event->event); });
}
static int32_t wait(pp_device_stream *stream, pp_device_event *event,
                    pp_device_error *error) {
  return guard(error, [&] { stream->stream.wait(event->event); });
}
static int32_t timestamp(pp_device_stream *stream, int64_t *to,
                         pp_device_error *error) {
  return guard(error, [&] { stream->stream.timestamp(*to); });
}
static int32_t hold(pp_device_stream *stream, pp_device_error *error) {
  return guard(error, [&] { stream->stream.hold(); });
}
static void release(pp_device_stream *stream) { stream->stream.release(); }
static int32_t count(pp_device_stream *stream, uint64_t *counter,
                     uint64_t value, pp_device_error *error) {
  return guard(error, [&] { stream->stream.count(counter, value); });
}
static int32_t beginCapture(pp_device_stream *stream, pp_device_error *error) {
  return guard(error, [&] { stream->stream.beginCapture(); });
}
static int32_t endCapture(pp_device_stream *stream, pp_device_graph **graph,
                          pp_device_error *error) {
  return guard(error, [&] {
    *graph = new pp_device_graph{stream->stream.endCapture()};
  });
}
static int32_t launch(pp_device_stream *stream, pp_device_graph *graph,
                      pp_device_error *error) {
  return guard(error, [&] { stream->stream.launch(*graph->graph); });
}
static void destroyGraph(pp_device_graph *graph) { delete graph; }

static int32_t nameLink(pp_device *device, pp_device_link_name *name,
                        pp_device_error *error) {
  return guard(error, [&] {
    const Nccl &nccl = device->libraries.getNccl();
    ncclUniqueId id;
    nccl.check(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    *name = convert<pp_device_link_name>(id);
  });
}
static int32_t openLink(pp_device *device, const pp_device_link_name *name,
                        int32_t isSender, pp_device_link **link,
                        pp_device_error *error) {
  return guard(error, [&] {
    *link =
        new pp_device_link{Link(device->context, device->libraries.getNccl(),
                                convert<ncclUniqueId>(*name), isSender)};
  });
}
static int32_t isLinkOpen(pp_device_link *link, int32_t *isOpen,
                          pp_device_error *error) {
  return guard(error, [&] { *isOpen = link->link.isOpen(); });
}
static int32_t sendOverLink(pp_device_link *link, pp_device_stream *stream,
                            const void *data, uint64_t bytes,
                            pp_device_error *error) {
  return guard(
      error, [&] { link->link.send(stream->stream.getHandle(), data, bytes); });
}
static int32_t receiveOverLink(pp_device_link *link, pp_device_stream *stream,
                               void *data, uint64_t bytes,
                               pp_device_error *error) {
  return guard(error, [&] {
    link->link.receive(stream->stream.getHandle(), data, bytes);
  });
}
static void abortLink(pp_device_link *link) { link->link.abort(); }
static void closeLink(pp_device_link *link) { delete link; }
static int32_t checkLink(pp_device *device, pp_device_error *error) {
  return guard(
      error, [&] { checkLinks(device->context, device->libraries.getNccl()); });
}

static int32_t loadProgram(pp_device *device, const pp_device_code *code,
                           pp_device_program **program,
                           pp_device_error *error) {
  return guard(error, [&] {
    auto loaded = std::unique_ptr<pp_device_program>(
        new pp_device_program{*device, std::nullopt});
    if (code)
      loaded->code.emplace(device->context, *code);
    *program = loaded.release();
  });
}
static void unloadProgram(pp_device_program *program) { delete program; }
static int32_t createTableKernel(pp_device_program *program,
                                 const char *descriptor, uint64_t scratchpad,
                                 pp_device_kernel **kernel,
                                 pp_device_error *error) {
  return guard(error, [&] {
    KernelInputs inputs{program->device.context, program->device.libraries,
                        program->code ? &*program->code : nullptr, scratchpad};
    *kernel = new pp_device_kernel{createKernel(descriptor, inputs)};
  });
}
static void destroyKernel(pp_device_kernel *kernel) { delete kernel; }
static int32_t execute(pp_device_kernel *kernel, void *const *tensors,
                       void *scratchpad, pp_device_error *error) {
  return guard(error, [&] {
    kernel->kernel->execute(Stream::getCurrent(), tensors, scratchpad);
  });
}

static pp_device_table makeTable() {
  pp_device_table table{};
  table.abi_version = PP_DEVICE_ABI_VERSION;
  table.device_open = openDevice;
  table.device_close = closeDevice;
  table.device_is_host_memory = isHostMemory;
  table.device_has_graphs = hasGraphs;
  table.device_runs = runs;
  table.device_describe = describe;
  table.device_begin_range = beginRange;
  table.device_end_range = endRange;
  table.memory_allocate = allocate;
  table.memory_free = freeMemory;
  table.device_count = countDevices;
  table.host_allocate = allocateHost;
  table.host_free = freeHost;
  table.memory_allocate_shared = allocateShared;
  table.memory_open = openShared;
  table.memory_close = closeShared;
  table.event_create_shared = createSharedEvent;
  table.event_open = openEvent;
  table.link_name = nameLink;
  table.link_open = openLink;
  table.link_is_open = isLinkOpen;
  table.link_send = sendOverLink;
  table.link_receive = receiveOverLink;
  table.link_abort = abortLink;
  table.link_close = closeLink;
  table.link_check = checkLink;
  table.counter_create = createCounter;
  table.counter_destroy = destroyCounter;
  table.event_create = createEvent;
  table.event_destroy = destroyEvent;
  table.event_synchronize = synchronize;
  table.event_is_reached = isReached;
  table.stream_create = createStream;
  table.stream_destroy = destroyStream;
  table.stream_copy = copy;
  table.stream_clear = clear;
  table.stream_enter = enter;
  table.stream_leave = leave;
  table.stream_record = record;
  table.stream_wait = wait;
  table.stream_timestamp = timestamp;
  table.stream_hold = hold;
  table.stream_release = release;
  table.stream_count = count;
  table.stream_begin_capture = beginCapture;
  table.stream_end_capture = endCapture;
  table.stream_launch = launch;
  table.graph_destroy = destroyGraph;
  table.program_load = loadProgram;
  table.program_unload = unloadProgram;
  table.kernel_create = createTableKernel;
  table.kernel_destroy = destroyKernel;
  table.kernel_execute = execute;
  return table;
}

extern "C" __attribute__((visibility("default"))) const pp_device_table *
pp_device_plugin(void) {
  static const pp_device_table table = makeTable();
  return &table;
}
