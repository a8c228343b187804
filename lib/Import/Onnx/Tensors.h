//===- Tensors.h - Find and check the bytes of tensors --------------------===//
#ifndef PP_LIB_IMPORT_ONNX_TENSORS_H
#define PP_LIB_IMPORT_ONNX_TENSORS_H

#include "DiagnosticSink.h"
#include "pp/Import/Onnx/Reader.h"
#include "ppmlir_onnx.pb.h"

namespace pp::onnx {

/// Converts a tensor of a skeleton. `what` names it in messages ("initializer
/// 'w'"); `node` is the node that holds it, or null. Every fault goes to
/// `sink`; the tensor is whole only if none did.
Tensor readTensor(const ppmlir_onnx::TensorProto &proto,
                  const llvm::Twine &what, const Node *node, WeightFiles &files,
                  const ReaderOptions &options, DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_TENSORS_H
