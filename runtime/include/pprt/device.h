/*===- device.h - What the runtime and a device plugin know of each other -===*\
|*
|* A plugin is a shared object that defines `pp_device_plugin`. It may come from
|* another compiler and standard library than the runtime, so only C crosses
|* this interface: no exceptions, no memory that the other side frees.
|*
|* The functions do what those of the same names do in runtime/device/Device.h;
|* the comments here say only what differs. Threading is as there: any thread
|* may call the functions of a device and of a program; a stream, an event and a
|* kernel are used by one thread at a time.
|*
\*===----------------------------------------------------------------------===*/
#ifndef PPRT_DEVICE_H
#define PPRT_DEVICE_H

#include "pprt/pprt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever something in this header changes. */
#define PP_DEVICE_ABI_VERSION 2

typedef struct pp_device pp_device;
typedef struct pp_device_stream pp_device_stream;
typedef struct pp_device_event pp_device_event;
typedef struct pp_device_graph pp_device_graph;
typedef struct pp_device_program pp_device_program;
typedef struct pp_device_kernel pp_device_kernel;
typedef struct pp_device_link pp_device_link;

/* Names memory or an event to another process of the machine. */
typedef struct pp_device_handle {
  char bytes[64];
} pp_device_handle;

/* Names a link to the process at its other end. */
typedef struct pp_device_link_name {
  char bytes[128];
} pp_device_link_name;

/* Why a call failed. `exit_code` is that of the process (docs/runtime.md):
 * 1 input, 2 usage, 4 the system refused, 70 an internal fault. */
typedef struct pp_device_error {
  int32_t exit_code;
  char text[8188]; /* null terminated; longer texts are cut */
} pp_device_error;

/* Every function that has an `error` returns 0, or another value and fills it.
 * Destroying null is allowed. */
typedef struct pp_device_table {
  uint32_t abi_version; /* PP_DEVICE_ABI_VERSION of the plugin; always first */
  uint32_t reserved;

  /* How many devices there are; 0 also where that cannot be found out. */
  uint32_t (*device_count)(void);
  /* The device with this number, from 0. */
  int32_t (*device_open)(uint32_t number, pp_device **device,
                         pp_device_error *error);
  void (*device_close)(pp_device *device);
  int32_t (*device_is_host_memory)(pp_device *device);
  int32_t (*device_has_graphs)(pp_device *device);
  /* `target` as in the plan. */
  int32_t (*device_runs)(pp_device *device, const char *target);
  /* The model of the device, null terminated and cut to `bytes` bytes. */
  void (*device_describe)(pp_device *device, char *text, uint64_t bytes);
  /* Ranges nest; each belongs to the calling thread. Cheap where no profiler
   * listens. */
  void (*device_begin_range)(pp_device *device, const char *name);
  void (*device_end_range)(pp_device *device);

  int32_t (*memory_allocate)(pp_device *device, uint64_t bytes, void **memory,
                             pp_device_error *error);
  void (*memory_free)(pp_device *device, void *memory);
  /* Memory of the host that copies from and to the device need not stage. */
  int32_t (*host_allocate)(pp_device *device, uint64_t bytes, void **memory,
                           pp_device_error *error);
  void (*host_free)(pp_device *device, void *memory);
  /* Memory that other processes of the machine may open; freed as other memory,
   * but after they have closed it. */
  int32_t (*memory_allocate_shared)(pp_device *device, uint64_t bytes,
                                    void **memory, pp_device_handle *handle,
                                    pp_device_error *error);
  int32_t (*memory_open)(pp_device *device, const pp_device_handle *handle,
                         void **memory, pp_device_error *error);
  void (*memory_close)(pp_device *device, void *memory);
  /* A zeroed word that host threads read and streams set. */
  int32_t (*counter_create)(pp_device *device, uint64_t **counter,
                            pp_device_error *error);
  void (*counter_destroy)(pp_device *device, uint64_t *counter);

  int32_t (*event_create)(pp_device *device, pp_device_event **event,
                          pp_device_error *error);
  int32_t (*event_create_shared)(pp_device *device, pp_device_event **event,
                                 pp_device_handle *handle,
                                 pp_device_error *error);
  int32_t (*event_open)(pp_device *device, const pp_device_handle *handle,
                        pp_device_event **event, pp_device_error *error);
  void (*event_destroy)(pp_device_event *event);
  int32_t (*event_synchronize)(pp_device_event *event, pp_device_error *error);
  int32_t (*event_is_reached)(pp_device_event *event);

  int32_t (*stream_create)(pp_device *device, pp_device_stream **stream,
                           pp_device_error *error);
  /* Waits for the work of the stream. */
  void (*stream_destroy)(pp_device_stream *stream);
  /* Host memory need not be pinned. A source on the host may be read in the
   * call; a target on the host is valid when an event that was recorded later
   * has been synchronized. */
  int32_t (*stream_copy)(pp_device_stream *stream, void *to, const void *from,
                         uint64_t bytes, pp_device_error *error);
  int32_t (*stream_clear)(pp_device_stream *stream, void *to, uint64_t bytes,
                          pp_device_error *error);
  /* Between the two calls, kernels that the calling thread executes belong to
   * the stream. */
  int32_t (*stream_enter)(pp_device_stream *stream, pp_device_error *error);
  void (*stream_leave)(pp_device_stream *stream);
  int32_t (*stream_record)(pp_device_stream *stream, pp_device_event *event,
                           pp_device_error *error);
  int32_t (*stream_wait)(pp_device_stream *stream, pp_device_event *event,
                         pp_device_error *error);
  int32_t (*stream_timestamp)(pp_device_stream *stream, int64_t *to,
                              pp_device_error *error);
  int32_t (*stream_hold)(pp_device_stream *stream, pp_device_error *error);
  /* Does nothing where the stream is not held. */
  void (*stream_release)(pp_device_stream *stream);
  /* Sets a word of counter_create, with one store of 64 bits. */
  int32_t (*stream_count)(pp_device_stream *stream, uint64_t *counter,
                          uint64_t value, pp_device_error *error);
  int32_t (*stream_begin_capture)(pp_device_stream *stream,
                                  pp_device_error *error);
  int32_t (*stream_end_capture)(pp_device_stream *stream,
                                pp_device_graph **graph,
                                pp_device_error *error);
  int32_t (*stream_launch)(pp_device_stream *stream, pp_device_graph *graph,
                           pp_device_error *error);
  void (*graph_destroy)(pp_device_graph *graph);

  /* Links. A link is used by one thread at a time, but link_abort by any. */
  int32_t (*link_name)(pp_device *device, pp_device_link_name *name,
                       pp_device_error *error);
  /* Returns before the other end has opened it. */
  int32_t (*link_open)(pp_device *device, const pp_device_link_name *name,
                       int32_t is_sender, pp_device_link **link,
                       pp_device_error *error);
  int32_t (*link_is_open)(pp_device_link *link, int32_t *is_open,
                          pp_device_error *error);
  int32_t (*link_send)(pp_device_link *link, pp_device_stream *stream,
                       const void *data, uint64_t bytes,
                       pp_device_error *error);
  int32_t (*link_receive)(pp_device_link *link, pp_device_stream *stream,
                          void *data, uint64_t bytes, pp_device_error *error);
  void (*link_abort)(pp_device_link *link);
  void (*link_close)(pp_device_link *link);
  /* Sends a value from the device to itself, and compares. */
  int32_t (*link_check)(pp_device *device, pp_device_error *error);

  /* `code` is null for a program of the target "cpu"; it has to outlive the
   * result. */
  int32_t (*program_load)(pp_device *device, const pp_device_code *code,
                          pp_device_program **program, pp_device_error *error);
  void (*program_unload)(pp_device_program *program);
  int32_t (*kernel_create)(pp_device_program *program, const char *descriptor,
                           uint64_t scratchpad, pp_device_kernel **kernel,
                           pp_device_error *error);
  void (*kernel_destroy)(pp_device_kernel *kernel);
  int32_t (*kernel_execute)(pp_device_kernel *kernel, void *const *tensors,
                            void *scratchpad, pp_device_error *error);
} pp_device_table;

/* The one symbol of a plugin; never returns null. */
typedef const pp_device_table *(*pp_device_plugin_function)(void);
#define PP_DEVICE_PLUGIN_SYMBOL "pp_device_plugin"

#ifdef __cplusplus
}
#endif

#endif /* PPRT_DEVICE_H */
