//===- ConvTensors.h - A convolution's tensors for code of our own --------===//
#ifndef PP_RUNTIME_CPU_CONVTENSORS_H
#define PP_RUNTIME_CPU_CONVTENSORS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"
#include "cpu/KernelBuilder.h"

#include <vector>

namespace pp::runtime {

/// Numbers of f32, or bf16, that take so many bytes.
KernelBuilder::MemoryDesc numbersIn(uint64_t bytes, bool areShort = false);
/// The tensor with channels that lie together, in blocks or all of them, as
/// Winograd's algorithm needs them.
KernelBuilder::MemoryDesc withLanes(const KernelBuilder::MemoryDesc &desc);

/// The tensors of a convolution, or of the gradient of its input.
std::vector<KernelBuilder::Tensor>
describeTensors(const ConvShape &shape, ConvDirection direction,
                const ConvEpilogue &epilogue);
/// Those of the gradient of its weights.
std::vector<KernelBuilder::Tensor>
describeGradientTensors(const ConvShape &shape);
/// Weights as they are, and in a layout of our own of numbers of `type`.
std::vector<KernelBuilder::Tensor> describePacking(const ConvShape &shape,
                                                   DataType type);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVTENSORS_H
