//===- WinogradGradient.h - Gradients of 3 x 3 windows in tiles -----------===//
//
// The derivative of WinogradConvolution by its weights, y = A^T m A with
// m = (G w G^T) * (B^T t B), in the same tiles:
//
//   each of the 36 (or 16) numbers is a product of matrices
//                  tiles            channels              channels
//             ┌─────────────┐     ┌──────────┐          ┌──────────┐
//     outputs │  A dY A^T   │ x   │ B^T t B  │ tiles =  │    dU    │ outputs
//             └─────────────┘     └──────────┘          └──────────┘
//
//   and the gradient of a window is G^T dU G.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINOGRADGRADIENT_H
#define PP_RUNTIME_CPU_WINOGRADGRADIENT_H

#include "cpu/WinogradConvolution.h"

namespace pp::runtime {

/// Computes in f32, with strides and dilations of 1, without groups. A number
/// of the gradient depends on nothing but its output and channel, so parts of
/// outputs have the bits of the whole.
class WinogradGradient {
public:
  /// That of the convolution; y is where its gradient lies.
  using Shape = WinogradConvolution::Shape;

  /// With other tiles of registers than those of this processor, which it must
  /// have, the bits are the same.
  explicit WinogradGradient(const Shape &shape,
                            const ProductTiles &registers = productTiles())
      : shape(shape), registers(registers) {}
  /// Lets `run` add the gradient to what is there.
  void setAdded() { isAdded = true; }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x 3 x 3, dense. Each
  /// 16 channels of x, and of dY, lie together.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  Shape shape;
  const ProductTiles &registers;
  bool isAdded = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_WINOGRADGRADIENT_H
