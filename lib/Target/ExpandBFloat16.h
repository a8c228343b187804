//===- ExpandBFloat16.h - bf16 on processors that do not have it ----------===//
#ifndef PP_LIB_TARGET_EXPANDBFLOAT16_H
#define PP_LIB_TARGET_EXPANDBFLOAT16_H

#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace pp {

/// Makes all values of bf16 integers of 16 bits, conversions from and to it
/// operations on integers, and arithmetic in bf16 that of f32 between
/// conversions, for processors without conversions of their own: LLVM would
/// call functions of a compiler's library, element by element, even for values
/// that only pass from block to block. The results are those of IEEE 754:
/// rounded once, to nearest, ties to even; a NaN stays one.
///
///   %y = load bfloat, ptr %p             %y = load i16, ptr %p
///   %x = fpext bfloat %y to float        %x = bitcast i32 (%y << 16) to float
///   %z = fptrunc float %x to bfloat      %z = i16 (round %x)
///
/// Call it before LLVM's own passes, which then see integers only. Fails with
/// the name of an operation that it does not know.
llvm::Error expandBFloat16(llvm::Module &module);

/// The same of conversions that processors with bf16 do not have: from f64 and
/// from integers, by way of an f32 that is rounded to odd.
void expandDoubleToBFloat16(llvm::Module &module);

} // namespace pp

#endif // PP_LIB_TARGET_EXPANDBFLOAT16_H
