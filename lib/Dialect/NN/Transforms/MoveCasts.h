//===- MoveCasts.h - Move values in their short form ------------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_MOVECASTS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_MOVECASTS_H

#include "PhaseCasts.h"

namespace pp::nn {

/// Casts commute with operations that only move elements. So
///   - what moves the f32 form of a short value moves the short value, and its
///     readers widen what was moved;
///   - what is moved to be rounded is rounded first, behind its definition, if
///     the movements that are spared are as large as what is then rounded, and
///     if no other phase needs its f32 form too.
/// Every value keeps its bits. Broadcasts stay: they are copied into the
/// kernels of their readers.
void moveCasts(mlir::func::FuncOp function, mlir::Type shortElement);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_MOVECASTS_H
