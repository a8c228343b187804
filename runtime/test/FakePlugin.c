/*===- FakePlugin.c - A device plugin on host memory ----------------------===*\
|*
|* Everything runs at once, as on the processor, but the executor takes the ways
|* of a device with memory of its own. In C, so that the header stays C.
|*
|* Two kernels: `add bytes=N` adds each byte of tensor 0 to one of tensor 1;
|* `add count=N` is that of the plan.
|*
\*===----------------------------------------------------------------------===*/
#include "pprt/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pp_device {
  int unused;
};
struct pp_device_event {
  int unused;
};
struct pp_device_kernel {
  uint64_t bytes, count; /* one of them is 0 */
};
struct launch {
  pp_device_kernel kernel;
  void *tensors[3];
};
struct pp_device_graph {
  struct launch launches[8];
  unsigned count;
};
struct pp_device_stream {
  pp_device_graph *capture;
};
struct pp_device_program {
  int unused;
};

static _Thread_local pp_device_stream *current;

static int32_t fail(pp_device_error *error, int32_t code, const char *text) {
  error->exit_code = code;
  snprintf(error->text, sizeof(error->text), "%s", text);
  return 1;
}

static int32_t make(size_t bytes, void **result, pp_device_error *error) {
  *result = calloc(1, bytes);
  return *result ? 0 : fail(error, 4, "out of memory");
}

static int32_t device_open(uint32_t number, pp_device **device,
                           pp_device_error *error) {
  if (number > 0)
    return fail(error, 2, "the fake plugin has one device");
  return make(sizeof(pp_device), (void **)device, error);
}
static void device_close(pp_device *device) { free(device); }
static int32_t device_is_host_memory(pp_device *device) {
  (void)device;
  return 0;
}
static int32_t device_has_graphs(pp_device *device) {
  (void)device;
  return 1;
}
static int32_t device_runs(pp_device *device, const char *target) {
  (void)device;
  return strcmp(target, "cpu") == 0;
}
static void device_describe(pp_device *device, char *text, uint64_t bytes) {
  (void)device;
  snprintf(text, bytes, "Fake device");
}

/* The ranges of all threads as text, such as "a(b()c())". */
static char ranges[4096];
static pthread_mutex_t ranges_mutex = PTHREAD_MUTEX_INITIALIZER;
void take_ranges(char *to, size_t bytes);
void take_ranges(char *to, size_t bytes) {
  pthread_mutex_lock(&ranges_mutex);
  snprintf(to, bytes, "%s", ranges);
  ranges[0] = 0;
  pthread_mutex_unlock(&ranges_mutex);
}
static void add_range(const char *text) {
  pthread_mutex_lock(&ranges_mutex);
  if (strlen(ranges) + strlen(text) < sizeof(ranges))
    strcat(ranges, text);
  pthread_mutex_unlock(&ranges_mutex);
}
static void device_begin_range(pp_device *device, const char *name) {
  (void)device;
  add_range(name);
  add_range("(");
}
static void device_end_range(pp_device *device) {
  (void)device;
  add_range(")");
}

static uint32_t device_count(void) { return 1; }
static int32_t memory_allocate(pp_device *device, uint64_t bytes, void **memory,
                               pp_device_error *error) {
  (void)device;
  if (bytes > (uint64_t)1 << 40)
    return fail(error, 4, "that is too much");
  *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!*memory)
    return fail(error, 4, "out of memory");
  memset(*memory, 0, bytes);
  return 0;
}
static void memory_free(pp_device *device, void *memory) {
  (void)device;
  free(memory);
}
/* It shares nothing, and has no links. */
static int32_t memory_allocate_shared(pp_device *device, uint64_t bytes,
                                      void **memory, pp_device_handle *handle,
                                      pp_device_error *error) {
  (void)device, (void)bytes, (void)memory, (void)handle;
  return fail(error, 4, "the fake plugin shares nothing");
}
static int32_t memory_open(pp_device *device, const pp_device_handle *handle,
                           void **memory, pp_device_error *error) {
  (void)device, (void)handle, (void)memory;
  return fail(error, 4, "the fake plugin shares nothing");
}
static int32_t event_create_shared(pp_device *device, pp_device_event **event,
                                   pp_device_handle *handle,
                                   pp_device_error *error) {
  (void)device, (void)event, (void)handle;
  return fail(error, 4, "the fake plugin shares nothing");
}
static int32_t event_open(pp_device *device, const pp_device_handle *handle,
                          pp_device_event **event, pp_device_error *error) {
  (void)device, (void)handle, (void)event;
  return fail(error, 4, "the fake plugin shares nothing");
}
static int32_t link_name(pp_device *device, pp_device_link_name *name,
                         pp_device_error *error) {
  (void)device, (void)name;
  return fail(error, 4, "the fake plugin has no links");
}

static int32_t counter_create(pp_device *device, uint64_t **counter,
                              pp_device_error *error) {
  (void)device;
  return make(sizeof(uint64_t), (void **)counter, error);
}
static void counter_destroy(pp_device *device, uint64_t *counter) {
  (void)device;
  free(counter);
}

static int32_t event_create(pp_device *device, pp_device_event **event,
                            pp_device_error *error) {
  (void)device;
  return make(sizeof(pp_device_event), (void **)event, error);
}
static void event_destroy(pp_device_event *event) { free(event); }
static int32_t event_synchronize(pp_device_event *event,
                                 pp_device_error *error) {
  (void)event;
  (void)error;
  return 0;
}
static int32_t event_is_reached(pp_device_event *event) {
  (void)event;
  return 1;
}

static int32_t stream_create(pp_device *device, pp_device_stream **stream,
                             pp_device_error *error) {
  (void)device;
  return make(sizeof(pp_device_stream), (void **)stream, error);
}
static void stream_destroy(pp_device_stream *stream) {
  if (stream)
    free(stream->capture);
  free(stream);
}
static int32_t refuse_capture(pp_device_stream *stream,
                              pp_device_error *error) {
  if (stream->capture)
    return fail(error, 70, "not while a graph is captured");
  return 0;
}
static int32_t stream_copy(pp_device_stream *stream, void *to, const void *from,
                           uint64_t bytes, pp_device_error *error) {
  if (refuse_capture(stream, error))
    return 1;
  memcpy(to, from, bytes);
  return 0;
}
static int32_t stream_clear(pp_device_stream *stream, void *to, uint64_t bytes,
                            pp_device_error *error) {
  if (refuse_capture(stream, error))
    return 1;
  memset(to, 0, bytes);
  return 0;
}
static int32_t stream_enter(pp_device_stream *stream, pp_device_error *error) {
  (void)error;
  current = stream;
  return 0;
}
static void stream_leave(pp_device_stream *stream) {
  (void)stream;
  current = NULL;
}
static int32_t stream_event(pp_device_stream *stream, pp_device_event *event,
                            pp_device_error *error) {
  (void)event;
  return refuse_capture(stream, error);
}
static int32_t stream_timestamp(pp_device_stream *stream, int64_t *to,
                                pp_device_error *error) {
  struct timespec now;
  if (refuse_capture(stream, error))
    return 1;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *to = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return 0;
}
static int32_t stream_hold(pp_device_stream *stream, pp_device_error *error) {
  return refuse_capture(stream, error);
}
static void stream_release(pp_device_stream *stream) { (void)stream; }
static int32_t stream_count(pp_device_stream *stream, uint64_t *counter,
                            uint64_t value, pp_device_error *error) {
  if (refuse_capture(stream, error))
    return 1;
  __atomic_store_n(counter, value, __ATOMIC_RELAXED);
  return 0;
}
static int32_t stream_begin_capture(pp_device_stream *stream,
                                    pp_device_error *error) {
  if (refuse_capture(stream, error))
    return 1;
  return make(sizeof(pp_device_graph), (void **)&stream->capture, error);
}
static int32_t stream_end_capture(pp_device_stream *stream,
                                  pp_device_graph **graph,
                                  pp_device_error *error) {
  if (!stream->capture)
    return fail(error, 70, "no graph is captured");
  *graph = stream->capture;
  stream->capture = NULL;
  return 0;
}
static void run(const struct launch *launch) {
  const unsigned char *from = launch->tensors[0];
  unsigned char *to = launch->tensors[1];
  for (uint64_t i = 0; i < launch->kernel.bytes; ++i)
    to[i] = (unsigned char)(to[i] + from[i]);
  const float *a = launch->tensors[0], *b = launch->tensors[1];
  float *sum = launch->tensors[2];
  for (uint64_t i = 0; i < launch->kernel.count; ++i)
    sum[i] = a[i] + b[i];
}
static int32_t stream_launch(pp_device_stream *stream, pp_device_graph *graph,
                             pp_device_error *error) {
  if (refuse_capture(stream, error))
    return 1;
  for (unsigned i = 0; i < graph->count; ++i)
    run(&graph->launches[i]);
  return 0;
}
static void graph_destroy(pp_device_graph *graph) { free(graph); }

static int32_t program_load(pp_device *device, const pp_device_code *code,
                            pp_device_program **program,
                            pp_device_error *error) {
  (void)device;
  if (code)
    return fail(error, 2, "the fake plugin runs no device code");
  return make(sizeof(pp_device_program), (void **)program, error);
}
static void program_unload(pp_device_program *program) { free(program); }
static int32_t kernel_create(pp_device_program *program, const char *descriptor,
                             uint64_t scratchpad, pp_device_kernel **kernel,
                             pp_device_error *error) {
  (void)program;
  (void)scratchpad;
  unsigned long long bytes = 0, count = 0;
  if (sscanf(descriptor, "add bytes=%llu", &bytes) != 1 &&
      sscanf(descriptor, "add count=%llu", &count) != 1)
    return fail(error, 1, "the fake plugin has only 'add'");
  if (make(sizeof(pp_device_kernel), (void **)kernel, error))
    return 1;
  (*kernel)->bytes = bytes;
  (*kernel)->count = count;
  return 0;
}
static void kernel_destroy(pp_device_kernel *kernel) { free(kernel); }
static int32_t kernel_execute(pp_device_kernel *kernel, void *const *tensors,
                              void *scratchpad, pp_device_error *error) {
  (void)scratchpad;
  if (!current)
    return fail(error, 70, "executed outside of a stream");
  struct launch launch = {
      *kernel, {tensors[0], tensors[1], kernel->count ? tensors[2] : NULL}};
  if (!current->capture) {
    run(&launch);
    return 0;
  }
  pp_device_graph *graph = current->capture;
  if (graph->count == sizeof(graph->launches) / sizeof(graph->launches[0]))
    return fail(error, 70, "the graph is full");
  graph->launches[graph->count++] = launch;
  return 0;
}

#ifndef FAKE_ABI_VERSION
#define FAKE_ABI_VERSION PP_DEVICE_ABI_VERSION
#endif

static const pp_device_table table = {
    .abi_version = FAKE_ABI_VERSION,
    .device_open = device_open,
    .device_close = device_close,
    .device_is_host_memory = device_is_host_memory,
    .device_has_graphs = device_has_graphs,
    .device_runs = device_runs,
    .device_describe = device_describe,
    .device_begin_range = device_begin_range,
    .device_end_range = device_end_range,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .device_count = device_count,
    .host_allocate = memory_allocate,
    .host_free = memory_free,
    .memory_allocate_shared = memory_allocate_shared,
    .memory_open = memory_open,
    .event_create_shared = event_create_shared,
    .event_open = event_open,
    .link_name = link_name,
    .counter_create = counter_create,
    .counter_destroy = counter_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_synchronize = event_synchronize,
    .event_is_reached = event_is_reached,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_copy = stream_copy,
    .stream_clear = stream_clear,
    .stream_enter = stream_enter,
    .stream_leave = stream_leave,
    .stream_record = stream_event,
    .stream_wait = stream_event,
    .stream_timestamp = stream_timestamp,
    .stream_hold = stream_hold,
    .stream_release = stream_release,
    .stream_count = stream_count,
    .stream_begin_capture = stream_begin_capture,
    .stream_end_capture = stream_end_capture,
    .stream_launch = stream_launch,
    .graph_destroy = graph_destroy,
    .program_load = program_load,
    .program_unload = program_unload,
    .kernel_create = kernel_create,
    .kernel_destroy = kernel_destroy,
    .kernel_execute = kernel_execute,
};

const pp_device_table *pp_device_plugin(void);
const pp_device_table *pp_device_plugin(void) { return &table; }
