/*===- pp_compiler.h - Plan and compile models from another program -------===*\
|*
|* The C interface of libpp_compiler.so. Models it makes are opened with
|* pp_runtime.h:
|*
|*   const char *flags[] = {"--loss=cross_entropy", "--batch=64", "--cores=2"};
|*   char *plan;
|*   pp_error *error = pp_plan("model.onnx", flags, 3, &plan, NULL);
|*   if (!error)
|*     error = pp_compile("model.onnx", plan, flags, 2, "model.so");
|*   pp_text_free(plan);
|*
|* Flags are those of the tools: what `pp-plan --help` and `pp-compile --help`
|* list. The tools run as processes of their own, so that calls of several
|* threads run at the same time, and memory that a compilation has taken is free
|* afterwards. They are looked up in the folder `bin` of the installation that
|* the library is in, then on PATH. Notes and warnings go to the handler of
|* pp_set_message_handler.
|*
|* Errors are those of pp_runtime.h: their messages are what the tools print,
|* with the ONNX node and the flag; all errors of a kind at once.
|*
\*===----------------------------------------------------------------------===*/
#ifndef PP_COMPILER_H
#define PP_COMPILER_H

#include "pp_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads an ONNX file; `ir` is the model as MLIR, with operations of the dialect
 * nn. The caller frees it with pp_text_free. */
pp_error *pp_import(const char *model, const char *const *flags,
                    size_t flag_count, char **ir);

/* Searches the best pipeline. `plan` is JSON, as pp_compile takes it, `report`
 * (may be null) what pp-plan prints: the ten best plans, the stages and the
 * timeline of the first. Both are freed with pp_text_free. */
pp_error *pp_plan(const char *model, const char *const *flags,
                  size_t flag_count, char **plan, char **report);

/* Compiles a model into `output`: a shared object for pp_program_open, or what
 * the flag --emit says. `plan` is JSON of pp_plan, or null: stages and schedule
 * are as the flags say. The file appears whole or not at all. */
pp_error *pp_compile(const char *model, const char *plan,
                     const char *const *flags, size_t flag_count,
                     const char *output);

/* Null is allowed. */
void pp_text_free(char *text);

#ifdef __cplusplus
}
#endif

#endif /* PP_COMPILER_H */
