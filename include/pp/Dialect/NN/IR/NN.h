//===- NN.h - The nn dialect ------------------------------------*- C++ -*-===//

#ifndef PP_DIALECT_NN_IR_NN_H
#define PP_DIALECT_NN_IR_NN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "pp/Interfaces/BatchAxisOpInterface.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/DifferentiableOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Interfaces/StoredLayoutAttrInterface.h"

#include "pp/Dialect/NN/IR/NNDialect.h.inc"
#include "pp/Dialect/NN/IR/NNEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/NN/IR/NNAttrs.h.inc"

namespace pp::nn {
struct Epilogue;

/// The layout of a packed tensor; null where it is row-major.
PackedAttr getPacked(mlir::Type tensor);
/// The operand of a product or convolution that may be packed (`nn.pack`); null
/// for other operations.
mlir::OpOperand *getPackableFactor(mlir::Operation *op);
/// The descriptor of an operation with such an operand as if nothing were
/// packed; empty if the library does not have it.
std::string getUnpackedDescriptor(mlir::Operation *op);
/// The descriptor of a convolution or of pooling as if it worked in `layout`
/// and, for a convolution, by `algorithm`, with nothing packed. `op` works in
/// the plain layout. Empty for other operations, and where the library does not
/// have it.
std::string getDescriptorIn(mlir::Operation *op, Layout layout,
                            ConvolutionAlgorithm algorithm);
} // namespace pp::nn

#define GET_OP_CLASSES
#include "pp/Dialect/NN/IR/NNOps.h.inc"

namespace pp::nn {

/// Name of the function that holds the model, and later the whole step.
inline constexpr llvm::StringLiteral mainFunctionName = "main";
/// Name of the function that nn-attach-optimizer adds.
inline constexpr llvm::StringLiteral optimizerFunctionName = "optimizer";
/// Bytes of parameters in one call of the optimizer function: arenas are
/// multiples of it.
inline constexpr int64_t optimizerBlockBytes = 64;

/// Marks the globals that are trained.
inline constexpr llvm::StringLiteral trainedAttrName = "nn.trained";
/// On globals of a training program: why it is trained, or why not, in words.
inline constexpr llvm::StringLiteral trainingReasonAttrName = "nn.reason";
/// On products of f32: a GPU may round the factors to TF32 (8 bits of exponent,
/// 10 of mantissa).
inline constexpr llvm::StringLiteral tf32AttrName = "nn.tf32";
/// On products and convolutions of f32 whose factors, and whose sums in
/// whatever order, are whole numbers that f32 holds: they are computed as sums
/// of products in f32, by no algorithm that rounds.
inline constexpr llvm::StringLiteral exactAttrName = "nn.exact";
/// On an nn.maximum or nn.minimum that keeps its left operand inside of a
/// bound, as torch.clamp and a hard tanh do: no cotangent passes where it is
/// that bound. Without the attribute, a tie is shared.
inline constexpr llvm::StringLiteral stopsAtBoundAttrName = "nn.stops_at_bound";

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_NN_H
