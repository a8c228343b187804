//===- Model.cpp - An ONNX model as plain values --------------------------===//
#include "pp/Import/Onnx/Model.h"

using namespace pp::onnx;

const Attribute *Node::attribute(llvm::StringRef attributeName) const {
  for (const Attribute &candidate : attributes)
    if (candidate.name == attributeName)
      return &candidate;
  return nullptr;
}

llvm::Expected<llvm::ArrayRef<uint8_t>>
Model::bytes(const Tensor &tensor) const {
  if (!tensor.location)
    return llvm::ArrayRef<uint8_t>(tensor.bytes);
  llvm::Expected<llvm::ArrayRef<uint8_t>> file =
      files->map(tensor.location->file);
  if (!file)
    return file.takeError();
  return file->slice(tensor.location->offset, tensor.location->length);
}
