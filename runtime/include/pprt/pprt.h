/*===- pprt.h - What generated code and the runtime know of each other ----===*\
|*
|* The object file that pp-compile emits defines one symbol, `pp_binary_table`,
and
|* the runtime library supplies `main`. Everything else the two sides share is
|* in this header and in the plan, a JSON text inside the binary (see
|* docs/plan-format.md).
|*
|* Threading: a phase function keeps no state of its own. The runtime calls the
|* phase functions of one stage from one thread, those of different stages
|* concurrently. Where the plan gives a stage several threads, all of them call
|* the same function at once, each with its own arguments, for its part of every
|* kernel.
|*
\*===----------------------------------------------------------------------===*/
#ifndef PPRT_PPRT_H
#define PPRT_PPRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct below or the plan's meaning changes. */
#define PP_ABI_VERSION 13

/* All arenas, and all tensors inside them, start at multiples of this. */
#define PP_ALIGNMENT 64

/* The most threads that may compute a stage together, and parts of a kernel. */
#define PP_MOST_THREADS 1024
/* How many micro-batches a W may take together. */
#define PP_MOST_TOGETHER 16

/* The memory one run of a phase works on. Offsets inside each area are
 * constants of the generated code; `inputs` and `outputs` follow the order of
 * the phase's lists in the plan. */
typedef struct pp_phase_arguments {
  char *parameters;       /* trained parameters of the stage            */
  char *buffers;          /* untrained state and constants              */
  char *gradients;        /* same layout as `parameters`; phases add    */
  char *statistics;       /* per-mini-batch sums of running statistics  */
  char *residuals;        /* the slot that keeps F's values for B and W */
  char *scratch;          /* dead when the phase returns                */
  char *prepared;         /* what P has made, until the next P          */
  char *const *inputs;    /* feeds and received values                  */
  char *const *outputs;   /* values to send, to fetch, and the loss     */
  void *const *kernels;   /* library kernels, in the plan's order       */
  uint64_t is_probed;     /* whether pp_probe_kernel looks at kernels   */
  uint64_t is_first;      /* B, W of a stage that `writes_gradients`: it
                             is the first one in this step. P: no update
                             has written what is `prepared` in the plan  */
  uint64_t part, parts;   /* the thread's part of each kernel: one of
                             `parts`; 0 of 1 where it is alone          */
  void *team;             /* for pp_join_parts; null: it is alone       */
  const int32_t *samples; /* U: how many the sums of running statistics
                             are of; aligned to 64 bytes              */
  uint64_t together;      /* W of a stage with `weights_together`: so many of
                             these structures, one after the other, are for
                             a micro-batch each; at least 1              */
} pp_phase_arguments;

/* Runs one phase of one stage, for one micro-batch or for a step. */
typedef void (*pp_phase_function)(const pp_phase_arguments *);

/* One optimizer step over `count` consecutive parameters. `states` is
 * `states_per_parameter` arrays of `count` numbers, one after the other with a
 * distance of `state_stride` numbers. `scalars` holds the plan's
 * `optimizer.scalars`, evaluated for the step. All are of the plan's
 * `optimizer.dtype`: floats, or doubles. */
typedef void (*pp_optimizer_function)(int64_t count, void *parameters,
                                      const void *gradients, void *states,
                                      int64_t state_stride,
                                      const void *scalars);

/* Rounds at least `count` floats to the 16 bits of what the plan has under
 * `prepared`; up to 15 more, so that they are a multiple of 16. Both arrays are
 * aligned to 32 bytes. */
typedef void (*pp_rounding_function)(int64_t count, const void *parameters,
                                     void *rounded);

typedef struct pp_stage_functions {
  pp_phase_function forward;         /* F                                  */
  pp_phase_function backward_input;  /* I; null: nothing to do             */
  pp_phase_function backward_weight; /* W; null: nothing to do             */
  pp_phase_function update;          /* after the optimizer, once per step:
                                        commits running statistics; may be
                                        null */
  pp_phase_function prepare;         /* P, once per step before all others, of
                                        nothing but parameters and buffers;
                                        null: nothing to do                */
} pp_stage_functions;

/* The kernels of a program that is compiled for a GPU. Its phase functions run
 * on the host and do nothing but pp_execute_kernel. */
typedef struct pp_device_code {
  const char *binary; /* a cubin for the plan's target, or null    */
  uint64_t binary_size;
  const char *assembly; /* PTX, null terminated, for any later chip  */
  uint64_t assembly_size;
} pp_device_code;

/* A GPU's kernel for the target `mock`. `run` runs one thread of it. The
 * arguments are those of the kernel: pointers, and integers of 64 bits that are
 * cast to pointers; `shared` is the memory that the block shares. */
typedef struct pp_mock_kernel {
  const char *name;
  void (*run)(void *const *arguments, void *shared, int64_t block,
              int64_t thread);
  uint64_t argument_count;
  uint64_t shared_bytes;
  uint64_t waits; /* whether it calls a function pp_mock_* */
} pp_mock_kernel;

/* One compiled pipeline: for training or for inference. */
typedef struct pp_pipeline {
  const char *plan; /* JSON text, not null terminated */
  uint64_t plan_size;
  const pp_stage_functions *stages;
  uint64_t stage_count;
  pp_optimizer_function optimizer;    /* null in inference programs and where
                                         the plan names a kernel           */
  pp_rounding_function round;         /* null where no parameter has a place
                                         `prepared` in the plan             */
  const pp_device_code *device_code;  /* null: for the processor          */
  const pp_mock_kernel *mock_kernels; /* for the target `mock`   */
  uint64_t mock_kernel_count;
} pp_pipeline;

/* The programs for one of several sizes of a dimension. */
typedef struct pp_bucket {
  const pp_pipeline *training;  /* null when compiled without a loss */
  const pp_pipeline *inference; /* never null */
} pp_bucket;

typedef struct pp_binary {
  uint32_t abi_version;  /* PP_ABI_VERSION of the compiler */
  uint32_t bucket_count; /* 0: there is one size of everything */
  /* With buckets, those of the last one. */
  const pp_pipeline *training;  /* null when compiled without a loss */
  const pp_pipeline *inference; /* never null */
  const pp_bucket *buckets;     /* smallest first                    */
} pp_binary;

/* Defined by the object file that pp-compile emits. */
extern const pp_binary pp_binary_table;

/* Runs a library kernel. `tensors` are in the order that the kernel's
 * descriptor documents; `scratchpad` has the number of bytes that the plan
 * states for it. Defined by the runtime, called by phase functions. */
void pp_execute_kernel(void *kernel, void *const *tensors, void *scratchpad);

/* Waits for all threads that run the phase together. A phase function of a
 * stage with several threads calls it where one part reads what another wrote,
 * and a generated kernel between its loops. */
void pp_join_parts(const pp_phase_arguments *arguments);

/* W of a stage with `weights_together` is a row of these two: what it does for
 * one micro-batch after the other, before it goes on. */

/* Runs a part of W for each micro-batch, in their order. */
void pp_run_together(const pp_phase_arguments *arguments,
                     pp_phase_function part);

/* Stores the tensors of a library kernel for one micro-batch. */
typedef void (*pp_tensors_function)(const pp_phase_arguments *, void **tensors);

/* Runs a library kernel of `tensor_count` tensors (at most PP_MOST_TENSORS)
 * that adds to the last one, for each micro-batch; `first` instead, which
 * writes, where that is the first in its step. `first` may be null. The bits
 * are those of pp_execute_kernel, which adds for one after the other, but the
 * sums may go through memory once for all. */
enum { PP_MOST_TENSORS = 8 };
void pp_execute_together(const pp_phase_arguments *arguments, void *kernel,
                         void *first, pp_tensors_function tensors,
                         uint64_t tensor_count, void *scratchpad);

/* In training programs for the processor, all threads of a phase call it after
 * each kernel with the kernel's number in the phase's `probes`. Does nothing
 * unless the arguments say so. */
void pp_probe_kernel(const pp_phase_arguments *arguments, int64_t kernel);

/* In programs that are made for measuring, a phase function calls it before
 * each kernel with the kernel's number in the plan's `marks`, and with -1
 * after the last one. */
void pp_mark_kernel(int64_t kernel);

/* Mock kernels call these in place of a GPU's instructions; `place` tells
 * apart those of a kernel. Only the function `run` of a pp_mock_kernel may
 * call them, while the runtime runs it. */

/* Waits for all threads of the block. */
void pp_mock_barrier(int32_t place);
/* Waits for the 32 threads of the warp; returns `bits` of the thread whose
 * number is this one's xor `mask`. */
int32_t pp_mock_shuffle(int32_t bits, int32_t mask, int32_t place);
/* Reports that a thread does what it must not: an access outside of its memory,
 * or of a vector that does not start at a multiple of its size. Returns. */
enum { PP_FAULT_OUT_OF_BOUNDS = 0, PP_FAULT_MISALIGNED = 1 };
void pp_mock_fault(int32_t fault, int64_t block, int64_t thread);

#ifdef __cplusplus
}
#endif

#endif /* PPRT_PPRT_H */
