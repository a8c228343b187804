//===- PlaneProduct.h - Convolutions as products of planes ------*- C++ -*-===//
//
// Of a window with a single place, where each channel's pixels lie together:
//
//                              pixels
//                        ┌────────┬────────┐
//               channels │        x        │
//         ┌────────────┐ └────────┴────────┘
//         │            │ ┌────────┬────────┐
// outputs │  weights   │ │thread 0│thread 1│  + bias + residual, activation
//         └────────────┘ └────────┴────────┘
//
// The gradient of x has the weights transposed. Without AVX-512, oneDNN brings
// x, and back y, into a layout of its own first, in each thread all of x.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PLANEPRODUCT_H
#define PP_RUNTIME_CPU_PLANEPRODUCT_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"

namespace pp::runtime {

/// Whether a convolution of f32, or the gradient of its image, is computed so:
/// with weights that are not packed.
bool isPlaneProduct(const ConvShape &whole, ConvDirection direction);

void buildPlaneProduct(const ConvShape &whole, ConvDirection direction,
                       const ConvEpilogue &epilogue, KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PLANEPRODUCT_H
