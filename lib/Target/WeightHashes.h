//===- WeightHashes.h - Hashes of parts of weight files ---------*- C++ -*-===//

#ifndef PP_TARGET_WEIGHTHASHES_H
#define PP_TARGET_WEIGHTHASHES_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace pp {

/// What a plan says about the bytes that its tensors take from files, so that a
/// program notices when they have changed. Each range is read once.
class WeightHashes {
public:
  /// The hash (support/ContentHash.h), or why the file cannot be read.
  llvm::ErrorOr<uint64_t> get(llvm::StringRef file, uint64_t offset,
                              uint64_t bytes);

private:
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, uint64_t> hashes;
};

} // namespace pp

#endif // PP_TARGET_WEIGHTHASHES_H
