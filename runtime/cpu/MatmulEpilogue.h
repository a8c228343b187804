//===- MatmulEpilogue.h - What follows a product inside `matmul` ----------===//
#ifndef PP_RUNTIME_CPU_MATMULEPILOGUE_H
#define PP_RUNTIME_CPU_MATMULEPILOGUE_H

#include "cpu/Descriptor.h"

namespace pp::runtime {

/// The key `epilogue` of docs/plan-format.md.
struct MatmulEpilogue {
  enum Activation { None, Relu, Gelu };
  bool hasBias = false;
  Activation activation = None;
  bool hasAuxiliary = false; // the sum before the activation is a result too
};

/// Reads the key; nothing follows where it is absent. `c` are the dimensions of
/// the product and `isDense` says whether it is row-major without gaps. Throws
/// DescriptorError where cuBLASLt could not do it: a batch, gaps, or an
/// auxiliary result whose rows are no multiple of 8 elements.
MatmulEpilogue readEpilogue(Descriptor &descriptor, const Descriptor::Dims &c,
                            bool isDense);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATMULEPILOGUE_H
