//===- PackedWeights.h - Weights in the library's own layout --------------===//
#ifndef PP_RUNTIME_CPU_PACKEDWEIGHTS_H
#define PP_RUNTIME_CPU_PACKEDWEIGHTS_H

#include "cpu/KernelBuilder.h"

namespace pp::runtime {

/// The key `packed`: the bytes of the weights in the library's layout; 0
/// without it.
size_t readPackedBytes(Descriptor &descriptor);

/// The bytes of `packed`, the layout that the library chose for weights that
/// lie as `plain`; 0 where there is nothing to be gained or no room.
uint64_t measurePacked(const KernelBuilder::MemoryDesc &plain,
                       const KernelBuilder::MemoryDesc &packed);

/// Checks that the layout takes as many bytes, `own`, as it took for the
/// compiler. Throws DescriptorError.
void demandPacked(uint64_t own, size_t bytes);

/// A kernel that brings weights into the library's layout; of a part, they
/// begin at these offsets.
void buildPack(const KernelBuilder::MemoryDesc &plain,
               const KernelBuilder::MemoryDesc &packed, size_t bytes,
               KernelBuilder &builder, uint64_t plainOffset = 0,
               uint64_t packedOffset = 0);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PACKEDWEIGHTS_H
