//===- Reader.h - Read and check an ONNX file -----------------------------===//
#ifndef PP_IMPORT_ONNX_READER_H
#define PP_IMPORT_ONNX_READER_H

#include "pp/Import/Onnx/Model.h"

namespace pp::onnx {

/// What this reader understands; one version more gives a warning.
inline constexpr int64_t oldestIrVersion = 3;
inline constexpr int64_t newestIrVersion = 13;
inline constexpr int64_t newestOpset = 27;

struct ReaderOptions {
  /// Accept external data in files with several hard links, as package stores
  /// and download caches make them.
  bool allowHardlinks = false;
  /// Nodes of the graph and its subgraphs after functions are inlined.
  uint64_t maxNodes = 1000000;
  uint64_t maxFunctions = 10000;
  unsigned maxCallDepth = 100;
};

/// Reads the model at `path`, checks it and inlines its functions. The bytes
/// of weights are not read. On failure the error is a ReadError with every
/// fault found: the phases (file, versions, tensors and functions, graph) stop
/// the reader only at their end.
///
/// Linear in the size of the file without weights, but for the sort of an
/// unsorted graph, which takes O(n log n). Safe on hostile files: memory is
/// bounded by a small multiple of the file's size plus 64 MiB for inlined
/// bodies, and nothing outside the model's folder is opened.
llvm::Expected<std::unique_ptr<Model>>
readModel(llvm::StringRef path, const ReaderOptions &options = {});

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_READER_H
