/*===- mpi.h - What the runtime and the MPI plugin know of each other
-------===*\
|*
|* The plugin is a shared object that defines `pp_mpi_plugin`. It is built
|* against the mpi.h of the machine, whose types and constants differ between
|* implementations; only plain C crosses this interface.
|*
|* Without `threads`, one thread calls all functions. With it, any thread may
|* call `send` and `receive` at any time, and one thread at a time the others.
|*
\*===----------------------------------------------------------------------===*/
#ifndef PPRT_MPI_H
#define PPRT_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever something in this header changes. */
#define PP_MPI_ABI_VERSION 2

/* This process's part of a job. */
typedef struct pp_mpi_job pp_mpi_job;

/* A message on its way; what is in it is the plugin's. */
typedef uint64_t pp_mpi_request;

typedef struct pp_mpi_error {
  char text[2048]; /* null terminated; longer texts are cut */
} pp_mpi_error;

/* What `open` finds out. */
typedef struct pp_mpi_facts {
  uint32_t process, processes; /* number in, and size of, MPI_COMM_WORLD */
  uint32_t most_tag;           /* tags are 0 to this */
  uint32_t threads;            /* 1: MPI_THREAD_MULTIPLE is given */
  uint64_t most_bytes;         /* of one message */
  uint64_t piece_bytes; /* of a part of a longer one; best sent unasked */
  char library[256];    /* "Open MPI v4.1.4", for messages */
} pp_mpi_facts;

/* A message that has arrived or left. */
typedef struct pp_mpi_ended {
  uint32_t index;     /* of the request in the array that was tested */
  uint32_t peer;      /* the other process */
  uint64_t bytes;     /* that were received; of a send, nothing */
  uint32_t is_failed; /* 1: it failed, see the text of the error */
  uint32_t reserved;
} pp_mpi_ended;

/* As `peer` of a receive: a message of any process. */
#define PP_MPI_ANY UINT32_MAX

/* Every function that has an `error` returns 0, or another value and fills it.
 */
typedef struct pp_mpi_table {
  uint32_t abi_version; /* PP_MPI_ABI_VERSION of the plugin; always first */
  uint32_t reserved;

  /* Joins the job: waits for all its processes. Once in a process. `name`,
   * `process` and `processes` are what the launcher says; MPI knows by itself.
   */
  int32_t (*open)(const char *name, uint32_t process, uint32_t processes,
                  pp_mpi_job **job, pp_mpi_facts *facts, pp_mpi_error *error);
  /* Leaves the job: waits for all its processes. */
  int32_t (*close)(pp_mpi_job *job, pp_mpi_error *error);

  /* Start a message. The memory is MPI's until the request has ended. Messages
   * of one process with one tag arrive in the order in which they were sent,
   * at the receives in the order in which those were started. With
   * `is_matched`, a send ends only when its receive has been started. */
  int32_t (*send)(pp_mpi_job *job, uint32_t peer, uint32_t tag,
                  const void *data, uint64_t bytes, uint32_t is_matched,
                  pp_mpi_request *request, pp_mpi_error *error);
  int32_t (*receive)(pp_mpi_job *job, uint32_t peer, uint32_t tag, void *data,
                     uint64_t bytes, pp_mpi_request *request,
                     pp_mpi_error *error);
  /* Finds those of `count` requests that have ended, and forgets them. `ended`
   * has room for `count`; the number of entries goes to `ended_count`. Also
   * makes all other messages go on. Does not wait. */
  int32_t (*test)(pp_mpi_job *job, uint32_t count,
                  const pp_mpi_request *requests, pp_mpi_ended *ended,
                  uint32_t *ended_count, pp_mpi_error *error);
  /* Asks a message to end without having come or left; `test` says when it
   * has. Of a message that is half way, or of a send, MPI may think otherwise.
   */
  int32_t (*cancel)(pp_mpi_job *job, pp_mpi_request request,
                    pp_mpi_error *error);
} pp_mpi_table;

/* What a plugin defines. The table lives as long as the library. */
typedef const pp_mpi_table *(*pp_mpi_plugin_function)(void);
#define PP_MPI_PLUGIN_SYMBOL "pp_mpi_plugin"

#ifdef __cplusplus
}
#endif

#endif /* PPRT_MPI_H */
