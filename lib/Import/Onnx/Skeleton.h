//===- Skeleton.h - A model's messages without its weights ----------------===//
#ifndef PP_LIB_IMPORT_ONNX_SKELETON_H
#define PP_LIB_IMPORT_ONNX_SKELETON_H

#include "ppmlir_onnx.pb.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace pp::onnx {

/// What a rewritten TensorProto.raw_data holds: where the bytes are.
struct RawDataPosition {
  uint64_t offset;
  uint64_t length;
};

/// Decodes TensorProto.raw_data of a skeleton.
RawDataPosition rawDataPosition(const ppmlir_onnx::TensorProto &tensor);

/// Parses a model of at most 2 GiB. Every raw_data is replaced by its
/// position in `file`, so that no weight is copied; unknown fields are kept.
/// Fails with a message that tells apart a file cut short, a damaged one and
/// one that is no ONNX file. Messages nested more than 100 deep are refused.
llvm::Expected<std::unique_ptr<ppmlir_onnx::ModelProto>>
parseSkeleton(llvm::ArrayRef<uint8_t> file);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_SKELETON_H
