//===- ConvOwnKernels.h - Convolutions in code of our own -----------------===//
#ifndef PP_RUNTIME_CPU_CONVOWNKERNELS_H
#define PP_RUNTIME_CPU_CONVOWNKERNELS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"

namespace pp::runtime {

/// Whether a whole kernel, and so each part of it, is computed with Winograd's
/// algorithm in tiles of our own.
bool isInTiles(Descriptor &descriptor, KernelBuilder &builder,
               ConvDirection direction);
/// What the parts of one share, if they have less than a sample each: tiles
/// (`Division::None`, which leaves them to buildTiles()), or else `other`.
Division divisionOfTiles(Descriptor &descriptor, KernelBuilder &builder,
                         ConvDirection direction, Division other);
/// From the tensors, or parts of them, x, weights, bias, residual and y, or dY,
/// weights and dX. So do those below, but for the residual.
void buildTiles(const ConvShape &of, ConvDirection direction,
                const ConvEpilogue &epilogue, KernelBuilder &builder);
void buildPackTiles(const ConvShape &of, ConvDirection direction,
                    KernelBuilder &builder);

/// Whether it is one of few pixels in pairs of bf16.
bool isForwardInPairs(Descriptor &descriptor, KernelBuilder &builder);
void buildPairs(const ConvShape &of, const ConvEpilogue &epilogue,
                KernelBuilder &builder);
void buildPackPairs(const ConvShape &of, KernelBuilder &builder);

/// Whether it is computed in matrix tiles.
bool isInMatrixTiles(Descriptor &descriptor, KernelBuilder &builder,
                     ConvDirection direction);
ConvTiles makeMatrixTiles(const ConvShape &shape, ConvDirection direction);
void buildMatrixTiles(const ConvShape &shape, ConvDirection direction,
                      const ConvEpilogue &epilogue, KernelBuilder &builder);
void buildPackMatrixTiles(const ConvShape &shape, ConvDirection direction,
                          KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVOWNKERNELS_H
