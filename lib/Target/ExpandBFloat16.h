//===- ExpandBFloat16.h - bf16 as integers -------------------------------===//
#ifndef PP_LIB_TARGET_EXPANDBFLOAT16_H
#define PP_LIB_TARGET_EXPANDBFLOAT16_H

#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace pp {

/// Makes all values of bf16 integers of 16 bits, conversions from and to it
/// operations on integers, and arithmetic in bf16 that of f32 between
/// conversions. Processors without conversions of their own would call
/// functions of a compiler's library, element by element, even for values that
/// only pass from block to block; and where there are some, LLVM 22 expects a
/// vector of more than four conversions to be made one by one (cost 46 for 16
/// of them), and so makes whole loops with vectors of four. The results are
/// those of IEEE 754: rounded once, to nearest, ties to even; a NaN stays one.
///
///   %y = load bfloat, ptr %p             %y = load i16, ptr %p
///   %x = fpext bfloat %y to float        %x = bitcast i32 (%y << 16) to float
///   %z = fptrunc float %x to bfloat      %z = i16 (round %x)
///
/// Call it before LLVM's own passes, which then see integers only. Fails with
/// the name of an operation that it does not know.
llvm::Error expandBFloat16(llvm::Module &module);

} // namespace pp

#endif // PP_LIB_TARGET_EXPANDBFLOAT16_H
