//===- Layout.h - Where the channels of a tensor lie ------------*- C++ -*-===//
//
// nn.reorder has the table of layouts. The shape of a tensor in a layout says
// how it lies in memory, row-major; its logical shape is N x C x spatial.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DIALECT_NN_IR_LAYOUT_H
#define PP_DIALECT_NN_IR_LAYOUT_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

/// Channels of a block; 0 where there are no blocks.
int64_t getBlockOf(Layout layout);

/// Whether a tensor of this logical shape can lie so.
bool canLie(llvm::ArrayRef<int64_t> logical, Layout layout);

/// The shape that a tensor with this logical shape has in a layout.
llvm::SmallVector<int64_t> toPhysicalShape(llvm::ArrayRef<int64_t> logical,
                                           Layout layout);

/// The reverse; nothing if no tensor in that layout has the shape.
std::optional<llvm::SmallVector<int64_t>>
toLogicalShape(llvm::ArrayRef<int64_t> physical, Layout layout);

/// The same for a tensor of an operation over `spatial` axes that works in
/// `layout`: a blocked layout leaves tensors plain that it does not fit.
std::optional<llvm::SmallVector<int64_t>>
toLogicalShape(llvm::ArrayRef<int64_t> physical, Layout layout, size_t spatial);

/// What axis `axis` of a tensor of `rank` logical axes is in a layout. Axis 1,
/// the channels, is the axis of the blocks in a blocked layout, whose last axis
/// counts within a block.
int64_t toPhysicalAxis(int64_t axis, int64_t rank, Layout layout);

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_LAYOUT_H
