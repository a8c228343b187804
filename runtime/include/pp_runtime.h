/*===- pp_runtime.h - Train and run a model inside of another program -----===*\
|*
|* The C interface of libpp_runtime.so. `pp-compile --emit=library` makes a
|* shared object of a model, which pp_program_open opens:
|*
|*   pp_program *program;
|*   const char *flags[] = {"--lr=0.001", "--clip-gradient-norm=1"};
|*   pp_error *error =
|*       pp_program_open("./model.so", PP_TRAIN, flags, 2, &program);
|*   if (error) {
|*     fprintf(stderr, "%s\n", pp_error_message(error));
|*     pp_error_free(error);
|*     return 1;
|*   }
|*   int64_t shape[] = {32, 784}, labels[] = {32};
|*   pp_tensor inputs[] = {{"x", PP_F32, 2, shape, x},
|*                         {"target", PP_I64, 1, labels, y}};
|*   pp_step_result result;
|*   error = pp_train_step(program, inputs, 2, &result);
|*   ...
|*   pp_program_close(program);
|*
|* Errors are values: a function that can fail returns null or an error, which
|* the caller frees. After an error nothing has changed, unless its function
|* says otherwise.
|*
|* Threads: all functions may be called from any thread. Those of one program
|* wait for each other; those of different programs run at the same time. The
|* threads of the pipeline are the library's own.
|*
|* Memory: tensors that a function reads need to live until it returns, and are
|* not copied as a whole. Names and shapes that it gives live as long as the
|* program.
|*
|* Versions: what is here stays as it is under its symbol version; structs grow
|* only with new functions.
|*
\*===----------------------------------------------------------------------===*/
#ifndef PP_RUNTIME_H
#define PP_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the library, as "0.1.0". */
const char *pp_version(void);

/*===- Errors -------------------------------------------------------------===*/

typedef struct pp_error pp_error;

/* The exit codes of programs, too. */
typedef enum pp_error_kind {
  PP_ERROR_INVALID_INPUT = 1, /* a file, tensor or value cannot be used    */
  PP_ERROR_USAGE = 2,         /* a flag or name is unknown, or a call comes
                                 at the wrong time                         */
  PP_ERROR_UNSUPPORTED = 3,   /* right, but more than can be compiled      */
  PP_ERROR_IO = 4,            /* the operating system refused; no memory   */
  PP_ERROR_INTERNAL = 70,     /* a fault of ours, or a hang                */
  PP_ERROR_ANY = 0x7fffffff   /* all numbers are values of the type        */
} pp_error_kind;

pp_error_kind pp_error_get_kind(const pp_error *error);
/* What is wrong, where, and what to do. Lives as long as the error. */
const char *pp_error_message(const pp_error *error);
/* Null is allowed. */
void pp_error_free(pp_error *error);
/* For libraries that return errors, too. Never null. */
pp_error *pp_error_make(pp_error_kind kind, const char *message);

/*===- Tensors ------------------------------------------------------------===*/

typedef enum pp_data_type {
  PP_F32,
  PP_F64,
  PP_I64,
  PP_I32,
  PP_I8,
  PP_U8,
  PP_BOOL, /* one byte, 0 or 1 */
  PP_BF16,
  PP_F16,
  PP_I16,
  PP_U16,
  PP_U32,
  PP_U64,
  PP_DATA_TYPE_ANY = 0x7fffffff
} pp_data_type;

/* Dense and row-major. */
typedef struct pp_tensor {
  const char *name;
  pp_data_type type;
  int32_t rank;
  const int64_t *shape; /* `rank` numbers */
  void *data;
} pp_tensor;

/*===- Programs -----------------------------------------------------------===*/

typedef struct pp_program pp_program;

typedef enum pp_mode { PP_INFER, PP_TRAIN, PP_MODE_ANY = 0x7fffffff } pp_mode;

/* Opens a shared object of pp-compile, reads the weights and starts the
 * pipeline. With PP_TRAIN, it has to be compiled with a loss; pp_infer and
 * pp_eval_step then see the weights as they are trained.
 *
 * `flags` are flags of `program train`, such as "--lr=0.001": --lr,
 * --lr-schedule and its numbers (rates that decay need --lr-steps), --lr-file,
 * --clip-gradient-norm, --clip-gradient-value, --log-gradient-norm, --group,
 * --on-nan, --set, --seed, --annealed-steps; and, with PP_INFER too, --weights,
 * --no-verify-weights, --device, --pin, --watchdog, --no-graphs, --pad,
 * --input-scale, --input-mean, --input-std, and --ema (pp_infer, pp_eval_step
 * and pp_export, or what pp_load_weights loads, are of averages). */
pp_error *pp_program_open(const char *path, pp_mode mode,
                          const char *const *flags, size_t flag_count,
                          pp_program **program);
/* Ends what is in flight. Null is allowed. */
void pp_program_close(pp_program *program);

/* Samples in a step. */
uint64_t pp_batch_size(const pp_program *program);

/* What the program in mode `mode` takes and gives: type and shape of the port
 * number `index`, without data. The first dimension is the number of samples
 * where `is_batched`; it may be any in pp_infer and pp_eval_step, and at most
 * the batch in pp_train_step. Names of targets are among the inputs of
 * training. Of a program for several sizes of a dimension, those of the
 * largest; all take less, too. An output that the model has with the samples
 * beside other rows, or on another axis, has them first here. */
typedef struct pp_port {
  pp_tensor tensor;
  int32_t is_batched;
  int32_t is_target;
} pp_port;
size_t pp_input_count(const pp_program *program, pp_mode mode);
size_t pp_output_count(const pp_program *program);
pp_error *pp_get_input(const pp_program *program, pp_mode mode, size_t index,
                       pp_port *port);
pp_error *pp_get_output(const pp_program *program, size_t index, pp_port *port);

/*===- Training -----------------------------------------------------------===*/

typedef struct pp_step_result {
  uint64_t step;        /* the number of steps of the training with this one */
  double loss;          /* the mean over the samples */
  double learning_rate; /* NaN without an optimizer that has one */
  double gradient_norm; /* before clipping; NaN unless it is clipped or
                           --log-gradient-norm is given */
  int32_t is_skipped;   /* the loss or a gradient was not finite, and nothing
                           was updated */
} pp_step_result;

/* One step on up to a batch of samples: waits until all weights are updated.
 * Arrays of i32 are taken for i64, and f64 for f32; others have to be of the
 * type of the input. `result` may be null. After an error while the step ran,
 * no other can run. */
pp_error *pp_train_step(pp_program *program, const pp_tensor *inputs,
                        size_t count, pp_step_result *result);

/* The same in two parts, so that the pipeline stays full from step to step, as
 * schedules without a flush need it: starts a step and returns. The inputs may
 * be changed afterwards. PP_ERROR_USAGE where pp_steps_in_flight() is already
 * pp_most_steps_in_flight(). */
pp_error *pp_train_submit(pp_program *program, const pp_tensor *inputs,
                          size_t count);
/* Waits for the oldest step. Lets all steps end without a later one if none
 * was submitted behind them that could push them on. */
pp_error *pp_train_wait(pp_program *program, pp_step_result *result);
size_t pp_steps_in_flight(const pp_program *program);
size_t pp_most_steps_in_flight(const pp_program *program);

/* Called after each step, with the caller's `data`. What it returns is 0 to go
 * on; with a schedule without a flush, steps that have begun still end. It may
 * call functions of the program. */
typedef int (*pp_progress)(const pp_step_result *result, void *data);

/* Trains `epochs` times on all samples of the inputs, in an order drawn from
 * --seed for each epoch, or with `shuffle` 0 in theirs; the last step of an
 * epoch may be smaller. As `program train` does: with the same seed, it has
 * the same bits. `progress` may be null. */
pp_error *pp_train(pp_program *program, const pp_tensor *inputs, size_t count,
                   uint64_t epochs, int shuffle, pp_progress progress,
                   void *data);

/* `lr` of the optimizer, from the next step that is submitted on; a schedule's
 * factor still applies. */
pp_error *pp_set_learning_rate(pp_program *program, double rate);
pp_error *pp_get_learning_rate(const pp_program *program, double *rate);
/* Any value of the optimizer by its name, such as weight_decay. */
pp_error *pp_set_scalar(pp_program *program, const char *name, double value);
pp_error *pp_get_scalar(const pp_program *program, const char *name,
                        double *value);

/*===- Inference ----------------------------------------------------------===*/

/* Runs any number of samples. `outputs` name what is wanted, with buffers for
 * all samples. */
pp_error *pp_infer(pp_program *program, const pp_tensor *inputs,
                   size_t input_count, const pp_tensor *outputs,
                   size_t output_count);

/* Measures the model's only output, or that of the first loss, against its
 * targets: `metrics` are names such as accuracy, top5, f1, cross_entropy,
 * perplexity, mse, mae; their mean over the samples goes to `values`. The
 * targets are the input that the training program has for them, or `target`. */
pp_error *pp_eval_step(pp_program *program, const pp_tensor *inputs,
                       size_t count, const char *const *metrics,
                       size_t metric_count, double *values);

/*===- Weights ------------------------------------------------------------===*/

/* All of these need that no step is in flight.
 *
 * Parameters and what training changes besides (running statistics), in the
 * order of their names, however the model is cut. */
typedef struct pp_weight {
  pp_tensor tensor;   /* without data */
  int32_t is_trained; /* a parameter */
} pp_weight;
size_t pp_weight_count(const pp_program *program);
pp_error *pp_get_weight_info(const pp_program *program, size_t index,
                             pp_weight *weight);
/* Copies a tensor by its name out of the program, or into it. Type and shape
 * have to be those of the program. */
pp_error *pp_get_weight(pp_program *program, const pp_tensor *target);
pp_error *pp_set_weight(pp_program *program, const pp_tensor *source);
/* The gradient of the last step of training, before clipping. */
pp_error *pp_get_gradient(pp_program *program, const pp_tensor *target);

/* All parameters as one buffer, one behind the other in the order of their
 * names, without gaps. */
uint64_t pp_parameters_bytes(const pp_program *program);
pp_error *pp_get_parameters(pp_program *program, void *target, uint64_t bytes);
pp_error *pp_set_parameters(pp_program *program, const void *source,
                            uint64_t bytes);

/*===- Files --------------------------------------------------------------===*/

/* A snapshot (.safetensors) with everything that training goes on from. */
pp_error *pp_save(pp_program *program, const char *path);
/* Goes on exactly where a snapshot, of this library or of `program train`, was
 * saved. Flags of pp_program_open win over what it says. */
pp_error *pp_load(pp_program *program, const char *path);
/* Weights by name from any .safetensors file; with PP_TRAIN, and the
 * optimizer's state where the file has it. */
pp_error *pp_load_weights(pp_program *program, const char *path);
/* The ONNX file with trained weights, for inference. `model` is the file that
 * the program was compiled from; null: where it was. */
pp_error *pp_export(pp_program *program, const char *path, const char *model);

/*===- Messages -----------------------------------------------------------===*/

/* Lets notes and warnings, one or more lines each, go to `handler` instead of
 * standard error; null: back to it. Of all programs of the process; called from
 * any thread, one at a time. */
typedef void (*pp_message_handler)(const char *text, void *data);
void pp_set_message_handler(pp_message_handler handler, void *data);
/* Sends a message there. */
void pp_message(const char *text);

#ifdef __cplusplus
}
#endif

#endif /* PP_RUNTIME_H */
