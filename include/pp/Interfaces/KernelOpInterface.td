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
        The symbol of the state (gradient or running statistics) that the
        operation changes in place; null when it only computes its results.
      }], "::mlir::FlatSymbolRefAttr", "getUpdatedState", (ins), "",
      "return nullptr;">,
    InterfaceMethod<[{
        The symbol of the parameter that the operation is a view of; null for
        all others.
      }], "::mlir::FlatSymbolRefAttr", "getParameter", (ins), "",
      "return nullptr;">
  ];
}

#endif // PP_INTERFACES_KERNELOPINTERFACE_TD
