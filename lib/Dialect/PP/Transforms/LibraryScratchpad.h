//===- LibraryScratchpad.h - Memory of library kernels ----------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_LIBRARYSCRATCHPAD_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_LIBRARYSCRATCHPAD_H

#include "mlir/IR/Operation.h"

namespace pp::pipeline {

/// Asks the library how much memory a kernel needs while it runs on one thread;
/// for a GPU, which need not be at hand, the limit that the runtime keeps to.
/// Answers are kept for the life of the process; any thread may ask. Reports an
/// error on `op` if the library has no such kernel.
mlir::FailureOr<int64_t> getScratchpadBytes(mlir::Operation *op,
                                            const std::string &descriptor);

/// The kernel in so many parts, if the library computes the same bits with
/// them, else the kernel itself, which one thread runs then. Answers are kept
/// like those above.
std::string divideKernel(const std::string &descriptor, int64_t parts);

/// The kernel with room for so many micro-batches, if it adds and has a way to
/// do so for several at once, else the kernel itself.
std::string addTogether(const std::string &descriptor, int64_t microbatches);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_LIBRARYSCRATCHPAD_H
