/*===- Plugin.c - libpp_mpi.so
----------------------------------------------===*\
|*
|* The functions of pprt/mpi.h on the MPI that it is built with. In C, so that
|* mpicc of any MPI builds it, and only the library of C is needed.
|*
\*===----------------------------------------------------------------------===*/
#define _GNU_SOURCE
#include "pprt/mpi.h"

#include <mpi.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

_Static_assert(sizeof(MPI_Request) <= sizeof(pp_mpi_request),
               "a request does not fit into the interface");

struct pp_mpi_job {
  MPI_Comm all;
  /* Of test(): */
  uint32_t room;
  MPI_Request *requests;
  MPI_Status *statuses;
  int *indices;
};

static struct pp_mpi_job theJob;

static int32_t fail(pp_mpi_error *error, const char *what, int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    snprintf(text, sizeof(text), "error %d", code);
  snprintf(error->text, sizeof(error->text), "%s: %s", what, text);
  return 1;
}

static pp_mpi_request pack(MPI_Request request) {
  pp_mpi_request result = 0;
  memcpy(&result, &request, sizeof(request));
  return result;
}

static MPI_Request unpack(pp_mpi_request request) {
  MPI_Request result;
  memcpy(&result, &request, sizeof(result));
  return result;
}

/* Open MPI's own plugins look for its symbols among those of the program. */
static void showSymbols(void) {
#ifdef OPEN_MPI
  Dl_info info;
  if (dladdr((void *)&MPI_Init_thread, &info) && info.dli_fname)
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
#endif
}

/* What is sent unasked, without the header. A message for which MPI has to ask
 * first stands still, if there is as much to send in the other direction: the
 * answer waits behind all of that. */
#define PIECE_BYTES (256u << 10)

/* For MPI over TCP; a user's own settings come first. */
static void preferences(void) {
#ifdef OPEN_MPI
  char bytes[16];
  snprintf(bytes, sizeof(bytes), "%u", PIECE_BYTES + 1024);
  setenv("OMPI_MCA_btl_tcp_eager_limit", bytes, /*overwrite=*/0);
  setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", bytes, /*overwrite=*/0);
  setenv("OMPI_MCA_btl_tcp_max_send_size", bytes, /*overwrite=*/0);
  /* Its default is poll(2), of which nobody else can see what has come. */
  setenv("OMPI_MCA_opal_event_include", "epoll", /*overwrite=*/0);
#endif
}

static int32_t openJob(const char *name, uint32_t process, uint32_t processes,
                       pp_mpi_job **job, pp_mpi_facts *facts,
                       pp_mpi_error *error) {
  int code, threads = MPI_THREAD_SINGLE, number = 0, length = 0, flag = 0;
  void *mostTag = NULL;
  char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  (void)name, (void)process, (void)processes;
  memset(facts, 0, sizeof(*facts));
  MPI_Get_library_version(library, &length);
  library[strcspn(library, "\n,")] = 0;
  snprintf(facts->library, sizeof(facts->library), "%.255s", library);
  for (char *next = facts->library; *next; ++next)
    if (*next == '\t')
      *next = ' ';
  showSymbols();
  preferences();
  code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads);
  if (code != MPI_SUCCESS)
    return fail(error, "MPI_Init_thread", code);
  if (threads < MPI_THREAD_FUNNELED) {
    snprintf(error->text, sizeof(error->text),
             "%.255s does not work in a program with threads", facts->library);
    return 1;
  }
  facts->threads = threads == MPI_THREAD_MULTIPLE;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  facts->process = (uint32_t)number;
  MPI_Comm_size(MPI_COMM_WORLD, &number);
  facts->processes = (uint32_t)number;
  code = MPI_Comm_dup(MPI_COMM_WORLD, &theJob.all);
  if (code != MPI_SUCCESS)
    return fail(error, "MPI_Comm_dup", code);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(theJob.all, MPI_ERRORS_RETURN);
  MPI_Comm_get_attr(theJob.all, MPI_TAG_UB, &mostTag, &flag);
  /* The standard guarantees this one. */
  facts->most_tag = flag ? (uint32_t)*(int *)mostTag : 32767;
  facts->most_bytes = 1u << 30;
  facts->piece_bytes = PIECE_BYTES;
  *job = &theJob;
  return 0;
}

static int32_t closeJob(pp_mpi_job *job, pp_mpi_error *error) {
  int code = MPI_Comm_free(&job->all);
  if (code == MPI_SUCCESS)
    code = MPI_Finalize();
  if (code != MPI_SUCCESS)
    return fail(error, "MPI_Finalize", code);
  free(job->requests);
  free(job->statuses);
  free(job->indices);
  memset(job, 0, sizeof(*job));
  return 0;
}

static int32_t send(pp_mpi_job *job, uint32_t peer, uint32_t tag,
                    const void *data, uint64_t bytes, uint32_t is_matched,
                    pp_mpi_request *request, pp_mpi_error *error) {
  MPI_Request started;
  int code = (is_matched ? MPI_Issend : MPI_Isend)(
      data, (int)bytes, MPI_BYTE, (int)peer, (int)tag, job->all, &started);
  if (code != MPI_SUCCESS)
    return fail(error, is_matched ? "MPI_Issend" : "MPI_Isend", code);
  *request = pack(started);
  return 0;
}

static int32_t receive(pp_mpi_job *job, uint32_t peer, uint32_t tag, void *data,
                       uint64_t bytes, pp_mpi_request *request,
                       pp_mpi_error *error) {
  MPI_Request started;
  int source = peer == PP_MPI_ANY ? MPI_ANY_SOURCE : (int)peer;
  int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, source, (int)tag, job->all,
                       &started);
  if (code != MPI_SUCCESS)
    return fail(error, "MPI_Irecv", code);
  *request = pack(started);
  return 0;
}

static int reserve(pp_mpi_job *job, uint32_t count) {
  if (count <= job->room)
    return 1;
  free(job->requests);
  free(job->statuses);
  free(job->indices);
  job->room = 2 * count;
  job->requests = malloc(job->room * sizeof(*job->requests));
  job->statuses = malloc(job->room * sizeof(*job->statuses));
  job->indices = malloc(job->room * sizeof(*job->indices));
  if (job->requests && job->statuses && job->indices)
    return 1;
  job->room = 0;
  return 0;
}

static int32_t test(pp_mpi_job *job, uint32_t count,
                    const pp_mpi_request *requests, pp_mpi_ended *ended,
                    uint32_t *ended_count, pp_mpi_error *error) {
  int done = 0, code = MPI_SUCCESS;
  *ended_count = 0;
  if (!reserve(job, count)) {
    snprintf(error->text, sizeof(error->text), "no memory for %u requests",
             count);
    return 1;
  }
  for (uint32_t i = 0; i < count; ++i)
    job->requests[i] = unpack(requests[i]);
  /* Open MPI's first looks which have ended, and then what has come. */
  for (int i = 0; i < 2 && code == MPI_SUCCESS && done == 0; ++i)
    code = MPI_Testsome((int)count, job->requests, &done, job->indices,
                        job->statuses);
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
    return fail(error, "MPI_Testsome", code);
  if (done == MPI_UNDEFINED)
    done = 0;
  for (int i = 0; i < done; ++i) {
    MPI_Status *status = &job->statuses[i];
    pp_mpi_ended *entry = &ended[i];
    MPI_Count bytes = 0;
    int isCancelled = 0;
    entry->index = (uint32_t)job->indices[i];
    entry->is_failed = code == MPI_ERR_IN_STATUS &&
                       status->MPI_ERROR != MPI_SUCCESS &&
                       status->MPI_ERROR != MPI_ERR_PENDING;
    entry->peer = (uint32_t)status->MPI_SOURCE;
    entry->reserved = 0;
    if (entry->is_failed)
      (void)fail(error, "MPI_Testsome", status->MPI_ERROR);
    else if (MPI_Test_cancelled(status, &isCancelled) == MPI_SUCCESS &&
             !isCancelled)
      MPI_Get_elements_x(status, MPI_BYTE, &bytes);
    entry->bytes = bytes > 0 ? (uint64_t)bytes : 0;
  }
  *ended_count = (uint32_t)done;
  return 0;
}

static int32_t cancel(pp_mpi_job *job, pp_mpi_request request,
                      pp_mpi_error *error) {
  MPI_Request started = unpack(request);
  int code = MPI_Cancel(&started);
  (void)job;
  return code == MPI_SUCCESS ? 0 : fail(error, "MPI_Cancel", code);
}

EXPORT const pp_mpi_table *pp_mpi_plugin(void) {
  static const pp_mpi_table table = {
      PP_MPI_ABI_VERSION, 0, openJob, closeJob, send, receive, test, cancel};
  return &table;
}
