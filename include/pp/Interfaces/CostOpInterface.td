//===- CostOpInterface.td - What an operation costs ------------*- tablegen -*-===//

#ifndef PP_INTERFACES_COSTOPINTERFACE_TD
#define PP_INTERFACES_COSTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::pp";
  let description = [{
    The work and the memory traffic of one execution of an operation, from
    which a device model predicts its time. Numbers are those of the algorithm,
    not of an implementation: a convolution counts its multiplications and
    additions, a view counts nothing.
  }];
  let methods = [
    InterfaceMethod<[{
        Floating-point operations of one execution; an addition, a
        multiplication and a transcendental function count one each.
      }], "uint64_t", "getFlops", (ins), "",
      [{ return ::pp::detail::getResultElements($_op.getOperation()); }]>,
    InterfaceMethod<[{
        How many operations of the direct algorithm in f32 take as long as the
        chosen one: fewer than getFlops() where that saves some. For a
        prediction of time.
      }], "uint64_t", "getEffectiveFlops", (ins), "",
      [{ return $_op.getFlops(); }]>,
    InterfaceMethod<"Bytes read from memory: all operands once.",
      "uint64_t", "getBytesRead", (ins), "",
      [{ return ::pp::detail::getOperandBytes($_op.getOperation()); }]>,
    InterfaceMethod<"Bytes written to memory: all results once.",
      "uint64_t", "getBytesWritten", (ins), "",
      [{ return ::pp::detail::getResultBytes($_op.getOperation()); }]>
  ];
}

#endif // PP_INTERFACES_COSTOPINTERFACE_TD
