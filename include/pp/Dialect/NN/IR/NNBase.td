//===- NNBase.td - Classes that the op definitions share -------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNBASE_TD
#define PP_DIALECT_NN_IR_NNBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "pp/Dialect/NN/IR/NNAttrs.td"
include "pp/Interfaces/BatchAxisOpInterface.td"
include "pp/Interfaces/CostOpInterface.td"
include "pp/Interfaces/DifferentiableOpInterface.td"
include "pp/Interfaces/KernelOpInterface.td"

class NN_TensorOf<list<Type> types>
    : ConfinedType<RankedTensorOf<types>, [HasStaticShapePred],
                   "statically shaped " # RankedTensorOf<types>.summary>;
// Sixteen bits are for storage: operations that move values or take their
// products accept them, arithmetic on elements does not.
// The same holds for integers of less than 32 bits and for ui32; of the others,
// ui64 alone is without a sign.
def NN_Tensor : NN_TensorOf<[F32, F64, BF16, F16, I64, I32, I16, I8, UI64, UI32,
                             UI16, UI8, I1]>;
def NN_FactorTensor : NN_TensorOf<[F32, F64, BF16, F16]>;
def NN_FloatTensor : NN_TensorOf<[F32, F64]>;
def NN_NumberTensor : NN_TensorOf<[F32, F64, I64, I32, UI64]>;
def NN_IndexTensor : NN_TensorOf<[I64, I32]>;
def NN_BoolTensor : NN_TensorOf<[I1]>;
def NN_BitsTensor : NN_TensorOf<[I1, I64, I32, UI64, I8, UI8]>;

// Which methods of an interface an op defines itself; the others keep their
// defaults.
class NN_Cost<list<string> methods = []>
    : DeclareOpInterfaceMethods<CostOpInterface, methods>;
def NN_Differentiable
    : DeclareOpInterfaceMethods<DifferentiableOpInterface, ["buildVJP"]>;
class NN_Batch<list<string> methods = []>
    : DeclareOpInterfaceMethods<BatchAxisOpInterface, methods>;

class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits>;

/// A pure op for which code is generated.
class NN_GeneratedOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, traits # [Pure, CostOpInterface]> {
  code kernelClass = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::Generated; }
  }];
  let extraClassDeclaration = kernelClass;
}

/// Code is generated, the batch passes as in elementwise operations.
class NN_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : NN_GeneratedOp<mnemonic, traits # [BatchAxisOpInterface, KernelOpInterface,
                                         Elementwise]>;

class NN_UnaryOp<string mnemonic, Type type, list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, [SameOperandsAndResultType] # traits> {
  let arguments = (ins type:$input);
  let results = (outs type:$output);
  let assemblyFormat = "$input attr-dict `:` type($output)";
}

/// With its derivative: `vjp` is the cotangent of the operand x, from the
/// cotangent g of the result y, in terms of the Emitter e.
class NN_UnaryFunctionOp<string mnemonic, Type type, code vjp>
    : NN_UnaryOp<mnemonic, type, [NN_Differentiable]> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::buildVJP(
        ::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> cotangents,
        ::llvm::ArrayRef<bool> needed,
        ::llvm::SmallVectorImpl<::mlir::Value> &operandCotangents) {
      [[maybe_unused]] ::pp::nn::Emitter e{builder, getLoc()};
      [[maybe_unused]] ::mlir::Value g = cotangents[0], x = getInput(),
                                     y = getOutput();
      operandCotangents.assign({ }] # vjp # [{ });
      return ::mlir::success();
    }
  }];
}

class NN_BinaryOp<string mnemonic, Type type, list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, [SameOperandsAndResultType] # traits> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$output);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($output)";
}

/// With its derivatives: the cotangents of the operands x and z, from the
/// cotangent g of the result y, in terms of the Emitter e.
class NN_BinaryFunctionOp<string mnemonic, Type type, code lhsVJP, code rhsVJP,
                          list<Trait> traits = []>
    : NN_BinaryOp<mnemonic, type, traits # [NN_Differentiable]> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::buildVJP(
        ::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> cotangents,
        ::llvm::ArrayRef<bool> needed,
        ::llvm::SmallVectorImpl<::mlir::Value> &operandCotangents) {
      [[maybe_unused]] ::pp::nn::Emitter e{builder, getLoc()};
      [[maybe_unused]] ::mlir::Value g = cotangents[0], x = getLhs(),
                                     z = getRhs(), y = getOutput();
      operandCotangents.assign(2, ::mlir::Value());
      if (needed[0])
        operandCotangents[0] = }] # lhsVJP # [{;
      if (needed[1])
        operandCotangents[1] = }] # rhsVJP # [{;
      return ::mlir::success();
    }
  }];
}

/// A pure op that a library implements. Its cost is stated by the op.
class NN_LibraryOp<string mnemonic,
                   list<Trait> traits = [SameOperandsAndResultElementType]>
    : NN_Op<mnemonic, traits # [Pure,
                                NN_Cost<["getFlops"]>,
                                NN_Batch<["propagateBatch"]>,
                                KernelOpInterface]> {
  code libraryKernelClass = [{
    /// Library where it has a kernel for the types and shapes, else generated.
    ::pp::KernelClass getKernelClass() {
      return getLibraryDescriptor().empty() ? ::pp::KernelClass::Generated
                                            : ::pp::KernelClass::Library;
    }
    std::string getLibraryDescriptor();
  }];
  let extraClassDeclaration = libraryKernelClass;
  let hasVerifier = 1;
}

/// An op that names memory that exists: no code, no cost.
class NN_ViewOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, traits # [Pure, CostOpInterface]> {
  code viewKernelClass = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::View; }
    uint64_t getFlops() { return 0; }
    uint64_t getBytesRead() { return 0; }
    uint64_t getBytesWritten() { return 0; }
  }];
  let extraClassDeclaration = viewKernelClass;
}

#endif // PP_DIALECT_NN_IR_NNBASE_TD
