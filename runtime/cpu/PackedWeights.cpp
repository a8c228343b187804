//===- PackedWeights.cpp - `pack_*` ---------------------------------------===//
#include "cpu/PackedWeights.h"

using namespace pp::runtime;
using MemoryDesc = KernelBuilder::MemoryDesc;

size_t pp::runtime::readPackedBytes(Descriptor &descriptor) {
  return descriptor.has("packed")
             ? descriptor.getInteger("packed", 1, INT32_MAX)
             : 0;
}

uint64_t pp::runtime::measurePacked(const MemoryDesc &plain,
                                    const MemoryDesc &packed) {
  // Winograd's weights have no strides at all.
  bool isBlocked = packed.data.format_kind == dnnl_blocked &&
                   packed.data.format_desc.blocking.inner_nblks > 0;
  bool isWinograd = packed.data.format_kind == dnnl_format_kind_wino;
  bool isPossible = (isBlocked || isWinograd) && packed != plain &&
                    packed.data_type() == plain.data_type() &&
                    packed.get_size() <= INT32_MAX;
  return isPossible ? packed.get_size() : 0;
}

void pp::runtime::demandPacked(uint64_t own, size_t bytes) {
  if (own != bytes)
    throw DescriptorError(
        "packed=" + std::to_string(bytes) + ": the library's layout takes " +
        std::to_string(own) + " bytes on this processor; compile for it");
}

void pp::runtime::buildPack(const MemoryDesc &plain, const MemoryDesc &packed,
                            size_t bytes, KernelBuilder &builder,
                            uint64_t plainOffset, uint64_t packedOffset) {
  if (bytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(packed.get_size(), bytes);
  auto from = builder.addTensor(plain, plainOffset);
  auto to = builder.addResult(packed, packedOffset);
  dnnl::reorder::primitive_desc desc(builder.getEngine(), plain,
                                     builder.getEngine(), packed,
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}
