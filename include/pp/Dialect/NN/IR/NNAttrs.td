//===- NNAttrs.td - Attributes and enumerations of nn ----------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNATTRS_TD
#define PP_DIALECT_NN_IR_NNATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "pp/Dialect/NN/IR/NNDialect.td"
include "pp/Interfaces/StoredLayoutAttrInterface.td"

class NN_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pp::nn";
  let genSpecializedAttr = 0;
}

def NN_ComparisonEnum : NN_Enum<"Comparison", "how two numbers are compared", [
  I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
  I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]>;
def NN_Comparison : EnumAttr<NN_Dialect, NN_ComparisonEnum, "comparison">;

def NN_ReductionEnum : NN_Enum<"Reduction", "how elements are combined", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"min", 2>, I32EnumAttrCase<"product", 3>]>;
def NN_Reduction : EnumAttr<NN_Dialect, NN_ReductionEnum, "reduction">;

def NN_StateEnum : NN_Enum<"State", "which state of a symbol is meant", [
  I32EnumAttrCase<"gradient", 0>, I32EnumAttrCase<"statistics", 1>]>;
def NN_State : EnumAttr<NN_Dialect, NN_StateEnum, "state">;

def NN_LayoutEnum : NN_Enum<"Layout", "how a tensor of channels lies in memory", [
  I32EnumAttrCase<"plain", 0>, I32EnumAttrCase<"channels_last", 1>,
  I32EnumAttrCase<"blocked8", 2>, I32EnumAttrCase<"blocked16", 3>]>;
def NN_Layout : EnumAttr<NN_Dialect, NN_LayoutEnum, "layout">;

def NN_ConvolutionAlgorithmEnum : NN_Enum<"ConvolutionAlgorithm",
    "how a convolution is computed", [
  I32EnumAttrCase<"direct", 0>, I32EnumAttrCase<"winograd", 1>,
  I32EnumAttrCase<"winograd2", 2>, I32EnumAttrCase<"winograd4", 3>,
  I32EnumAttrCase<"winograd2_bf16", 4>]>;
def NN_ConvolutionAlgorithm : EnumAttr<NN_Dialect, NN_ConvolutionAlgorithmEnum,
                                       "convolution_algorithm">;

def NN_ExternalAttr : AttrDef<NN_Dialect, "External", [TypedAttrInterface]> {
  let mnemonic = "external";
  let summary = "the bytes of a tensor in a file";
  let description = [{
    Says where the value of a parameter lies: `file` as it was given to the
    importer, `offset` and the number of bytes in it. The bytes are little-endian
    and row-major, or, with `transposed`, those of the transposed matrix. Where
    the parameter is of f32, they may be of bf16 or f16, and are widened. Of the
    compiler's passes only nn-fuse-attention reads them, of masks.

    ```mlir
    ml_program.global private mutable @fc.weight(
        #nn.external<"model.onnx", 1024, 40960> : tensor<10x1024xf32>)
        : tensor<10x1024xf32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$file, "uint64_t":$offset,
                        "uint64_t":$bytes,
                        DefaultValuedParameter<"bool", "false">:$transposed,
                        AttributeSelfTypeParameter<"">:$type);
  let assemblyFormat = [{
    `<` $file `,` $offset `,` $bytes (`,` `transposed` `=` $transposed^)? `>`
  }];
  let genVerifyDecl = 1;
}

def NN_PackedAttr : AttrDef<NN_Dialect, "Packed", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>,
    StoredLayoutAttrInterface]> {
  let mnemonic = "packed";
  let summary = "the layout that a library chose for a factor";
  let description = [{
    The encoding of a tensor that is the right factor of one matrix product, or
    the weight of one convolution, whose descriptor (docs/plan-format.md) is
    `product`. Only the library knows where
    its elements lie, in `bytes` bytes.

    ```mlir
    tensor<64x128xf32, #nn.packed<"matmul a=8x64 b=64x128 c=8x128", 32768>>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$product, "int64_t":$bytes);
  let assemblyFormat = "`<` $product `,` $bytes `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    uint64_t getStoredBytes() const { return getBytes(); }
  }];
}

#endif // PP_DIALECT_NN_IR_NNATTRS_TD
