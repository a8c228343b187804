//===- Expressions.cpp - Short names for arithmetic -----------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

Value Expressions::spread(Value x, ArrayRef<int64_t> shape,
                          ArrayRef<int64_t> axes) {
  if (axes.empty())
    return x;
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
    if (!llvm::is_contained(axes, axis))
      kept.push_back(axis);
  return n.make<BroadcastOp>(n.type(x).clone(shape), x, kept);
}
