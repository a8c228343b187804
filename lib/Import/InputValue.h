//===- InputValue.h - Inputs whose values the user gives --------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_INPUTVALUE_H
#define PP_LIB_IMPORT_INPUTVALUE_H

#include "Constant.h"
#include "pp/Import/Onnx/Model.h"
#include "llvm/Support/Error.h"
#include <string>

namespace pp {

/// An input of this type with these numbers: one for each element, or one for
/// all of them. The error says what is wrong with them.
llvm::Expected<Constant> readInputValue(mlir::RankedTensorType type,
                                        onnx::DataType dataType,
                                        llvm::ArrayRef<std::string> numbers);

} // namespace pp

#endif // PP_LIB_IMPORT_INPUTVALUE_H
