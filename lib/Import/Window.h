//===- Window.h - Windows of convolutions and pools -------------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_WINDOW_H
#define PP_LIB_IMPORT_WINDOW_H

#include "NodeImporter.h"

namespace pp {

/// Strides, dilations and padding per spatial axis.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations, low, high;

  int64_t reach(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};

/// Reads the attributes that convolutions and pools share. `input` has the
/// spatial sizes.
mlir::FailureOr<Window> readWindow(NodeImporter &n,
                                   llvm::ArrayRef<int64_t> input,
                                   llvm::ArrayRef<int64_t> kernel);

/// The spatial sizes that a window slides to; an error if it does not fit.
mlir::FailureOr<llvm::SmallVector<int64_t>>
slide(NodeImporter &n, const Window &window, llvm::ArrayRef<int64_t> input);

} // namespace pp

#endif // PP_LIB_IMPORT_WINDOW_H
