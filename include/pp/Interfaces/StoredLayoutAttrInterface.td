//===- StoredLayoutAttrInterface.td - Tensors of another layout -*- tablegen -*-===//

#ifndef PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_TD
#define PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_TD

include "mlir/IR/OpBase.td"

def StoredLayoutAttrInterface : AttrInterface<"StoredLayoutAttrInterface"> {
  let cppNamespace = "::pp";
  let description = [{
    The encoding of a tensor type whose elements do not lie in memory in row-major
    order. What the order is, only the makers and readers of the tensor know.
  }];
  let methods = [
    InterfaceMethod<"The bytes that the tensor takes in memory.",
      "uint64_t", "getStoredBytes">
  ];
}

#endif // PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_TD
