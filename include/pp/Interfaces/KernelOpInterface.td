//===- KernelOpInterface.td - How an operation is executed -----*- tablegen -*-===//

#ifndef PP_INTERFACES_KERNELOPINTERFACE_TD
#define PP_INTERFACES_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::pp";
  let description = [{
    How an operation runs: as a library kernel, as generated code, or not at
    all (a view of memory that exists already).
  }];
  let methods = [
    InterfaceMethod<"How the operation is executed.",
      "::pp::KernelClass", "getKernelClass">,
    InterfaceMethod<[{
        The descriptor of a library kernel (docs/plan-format.md has the
        language); empty for other classes.
      }], "std::string", "getLibraryDescriptor", (ins), "",
      "return std::string();">,
    InterfaceMethod<[{
        The descriptor of the library kernel that writes what this one adds to
        gradients: the first micro-batch of a step runs it instead. Empty for
        what adds nothing, and other classes.
      }], "std::string", "getFirstDescriptor", (ins), "",
      "return std::string();">,
    InterfaceMethod<[{
        Under what its measured time is filed: equal keys are equal work on equal
        shapes. The descriptor of a library kernel; empty for views.
      }], "std::string", "getCostKey", (ins), "",
      "return $_op.getLibraryDescriptor();">,
    InterfaceMethod<[{
        The states that the operation changes in place, in the order in which its
        function takes them; empty when it only computes its results.
      }], "::llvm::SmallVector<::pp::StateReference>", "getUpdatedStates",
      (ins), "", "return {};">,
    InterfaceMethod<[{
        Says of how many micro-batches an update has the statistics, to an
        operation that makes their mean. Fails, with an error on the operation,
        where it was made for others.
      }], "::llvm::LogicalResult", "setMicrobatchesOfUpdate",
      (ins "int64_t":$microbatches), "",
      "(void)microbatches; return ::llvm::success();">,
    InterfaceMethod<[{
        The symbol of the parameter that the operation is a view of; null for
        all others.
      }], "::mlir::FlatSymbolRefAttr", "getParameter", (ins), "",
      "return nullptr;">
  ];
}

#endif // PP_INTERFACES_KERNELOPINTERFACE_TD
