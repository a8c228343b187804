//===- WrittenDropout.h - Dropout that exporters write as arithmetic ------===//
#ifndef PP_LIB_IMPORT_WRITTENDROPOUT_H
#define PP_LIB_IMPORT_WRITTENDROPOUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pp {

/// Makes the masks of dropout ones, as inference has it, where a model exported
/// to train has them written out: numbers that are 1 / p with probability p,
/// and 0 otherwise. PyTorch's exporter does so with nn.Dropout, and whoever
/// drops paths with Bernoulli.
///
///   %u = nn.uniform                        %d = nn.constant 1
///   %m = nn.compare lt %u, p
///   %f = nn.cast %m
///   %d = nn.div %f, p
///
/// An argument for random numbers goes when nothing draws any more.
void removeWrittenDropout(mlir::func::FuncOp function);

} // namespace pp

#endif // PP_LIB_IMPORT_WRITTENDROPOUT_H
