//===- ConvGroupKernels.h - Convolutions with groups of few channels ------===//
#ifndef PP_RUNTIME_CPU_CONVGROUPKERNELS_H
#define PP_RUNTIME_CPU_CONVGROUPKERNELS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"
#include "cpu/DepthwiseWindows.h"

#include <optional>

namespace pp::runtime {

/// Sizes for code of our own, where that is faster.
std::optional<depthwise::Shape> findForwardWindows(Descriptor &descriptor,
                                                   KernelBuilder &builder);
std::optional<depthwise::Shape> findBackwardWindows(Descriptor &descriptor,
                                                    KernelBuilder &builder);
std::optional<depthwise::Shape> findGradientWindows(const ConvShape &whole,
                                                    KernelBuilder &builder);

/// From the tensors x, weights, bias and y, or dY, weights and dX.
void buildDepthwise(const depthwise::Shape &shape, ConvDirection direction,
                    const ConvEpilogue &epilogue, Descriptor &descriptor,
                    KernelBuilder &builder);
/// From x and dY to the gradient of the weights.
void buildDepthwiseGradient(const depthwise::Shape &shape,
                            const ConvShape &whole, KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGROUPKERNELS_H
