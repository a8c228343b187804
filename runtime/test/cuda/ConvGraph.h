//===- ConvGraph.h - What cuDNN would choose for a convolution ------------===//
#ifndef PP_RUNTIME_TEST_CUDA_CONVGRAPH_H
#define PP_RUNTIME_TEST_CUDA_CONVGRAPH_H

#include "AttentionGraph.h"
#include "ConvMapping.h"

namespace pp::cuda {

/// The bytes of workspace that cuDNN's first deterministic engine wants for
/// `kind` (`conv_forward`, ...) on the GPU of `target`, which need not be
/// there. Types and math are those of ConvKernel.cpp, whose functions need a
/// GPU. Throws std::runtime_error where there is no engine.
uint64_t getConvWorkspaceBytes(const std::string &kind, const ConvMapping &map,
                               const AttentionTarget &target);

} // namespace pp::cuda

#endif // PP_RUNTIME_TEST_CUDA_CONVGRAPH_H
