/*===- LibraryExample.c - A program in C that trains and runs the toy -----===*/
#include "pp_runtime.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns 1 and says what is wrong, if something is. */
static int failed(const char *what, pp_error *error) {
  if (!error)
    return 0;
  fprintf(stderr, "%s: %s (kind %d)\n", what, pp_error_message(error),
          (int)pp_error_get_kind(error));
  pp_error_free(error);
  return 1;
}

static int countSteps(const pp_step_result *result, void *data) {
  (void)result;
  return ++*(int *)data == 3; /* three are enough */
}

int main(int argc, char **argv) {
  static float x[8 * 4], target[8 * 4], y[8 * 4];
  const int64_t shape[] = {8, 4};
  const char *flags[] = {"--lr=0.05"}, *metrics[] = {"mse"};
  pp_tensor inputs[] = {{"x", PP_F32, 2, shape, x},
                        {"target", PP_F32, 2, shape, target}};
  pp_tensor output = {"y", PP_F32, 2, shape, y};
  pp_program *program = NULL;
  pp_error *error;
  pp_step_result first, last;
  double measured;
  int i, steps = 0;

  if (argc != 2)
    return 2;
  for (i = 0; i < 32; ++i) {
    x[i] = (float)sin(i);
    target[i] = (float)cos(3 * i);
  }
  if (failed("open", pp_program_open(argv[1], PP_TRAIN, flags, 1, &program)) ||
      failed("step", pp_train_step(program, inputs, 2, &first)) ||
      failed("train", pp_train(program, inputs, 2, 100, 1, countSteps, &steps)))
    return 1;
  for (i = 0; i < 20; ++i)
    if (failed("submit", pp_train_submit(program, inputs, 2)) ||
        failed("wait", pp_train_wait(program, &last)))
      return 1;
  if (failed("infer", pp_infer(program, inputs, 1, &output, 1)) ||
      failed("evaluate",
             pp_eval_step(program, inputs, 2, metrics, 1, &measured)))
    return 1;
  /* What cannot be: an error, and the program goes on. */
  error = pp_infer(program, inputs, 0, &output, 1);
  if (!error || pp_error_get_kind(error) != PP_ERROR_USAGE ||
      !strstr(pp_error_message(error), "'x'"))
    return 1;
  pp_error_free(error);
  printf("%s: step %d, loss %g, then step %d, loss %g; mse %g\n", pp_version(),
         (int)first.step, first.loss, (int)last.step, last.loss, measured);
  pp_program_close(program);
  return last.loss < first.loss && steps >= 3 && measured > 0 ? 0 : 1;
}
