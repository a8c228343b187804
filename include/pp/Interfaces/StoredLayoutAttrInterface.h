//===- StoredLayoutAttrInterface.h - Tensors of another layout --*- C++ -*-===//

#ifndef PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_H
#define PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_H

#include "mlir/IR/Attributes.h"

#include "pp/Interfaces/StoredLayoutAttrInterface.h.inc"

#endif // PP_INTERFACES_STOREDLAYOUTATTRINTERFACE_H
