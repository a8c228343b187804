//===- Taps.h - Samples of images between their elements --------*- C++ -*-===//
//
// The places of an image are counted row-major; a sample is a sum of elements
// near it, gathered for all channels at once.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_TAPS_H
#define PP_LIB_IMPORT_TAPS_H

#include "Expressions.h"

namespace pp {

/// An element near a sample along one axis: its place, as a whole
/// floating-point number inside the image, and how much it counts.
struct Tap {
  mlir::Value place, weight;
};

/// The nearest place of an axis of `size`; of NaN, the first one.
mlir::Value placeInside(Expressions &e, mlir::Value place, int64_t size);

/// A tap that counts nothing outside of an axis of `size`.
Tap tapOrZero(Expressions &e, mlir::Value place, mlir::Value weight,
              int64_t size);

/// The two elements that linear interpolation at `x` takes; nothing counts
/// outside of an axis of `size`.
llvm::SmallVector<Tap> linearTaps(Expressions &e, mlir::Value x, int64_t size);

/// Combines the elements of `image`, samples x places x channels, that each
/// choice of one tap of each axis names, times their weights. Taps are samples
/// x places of the result.
template <typename Combine>
mlir::Value combineTaps(Expressions &e, mlir::Value image,
                        llvm::ArrayRef<llvm::SmallVector<Tap>> axes,
                        llvm::ArrayRef<int64_t> sizes, const Combine &combine) {
  NodeImporter &n = e.n;
  mlir::Type index = n.getBuilder().getI64Type();
  mlir::Value result;
  llvm::SmallVector<size_t> choice(axes.size(), 0);
  while (true) {
    mlir::Value place, weight;
    for (auto [axis, taps] : llvm::enumerate(axes)) {
      const Tap &tap = taps[choice[axis]];
      mlir::Value own = n.cast(tap.place, index);
      place = place ? e.add(e.mul(place, static_cast<double>(sizes[axis])), own)
                    : own;
      weight = weight ? e.mul(weight, tap.weight) : tap.weight;
    }
    llvm::SmallVector<int64_t> shape(n.shape(place));
    shape.push_back(n.shape(image)[2]);
    mlir::Value part = n.make<nn::GatherOp>(n.type(image).clone(shape), image,
                                            place, int64_t{1}, int64_t{1});
    part = e.mul(part, n.make<nn::BroadcastOp>(n.type(part), weight,
                                               llvm::ArrayRef<int64_t>{0, 1}));
    result = result ? combine(result, part) : part;
    size_t axis = 0;
    while (axis < axes.size() && ++choice[axis] == axes[axis].size())
      choice[axis++] = 0;
    if (axis == axes.size())
      return result;
  }
}

/// The sum of these elements.
inline mlir::Value sumOfTaps(Expressions &e, mlir::Value image,
                             llvm::ArrayRef<llvm::SmallVector<Tap>> axes,
                             llvm::ArrayRef<int64_t> sizes) {
  return combineTaps(e, image, axes, sizes,
                     [&](mlir::Value x, mlir::Value y) { return e.add(x, y); });
}

} // namespace pp

#endif // PP_LIB_IMPORT_TAPS_H
