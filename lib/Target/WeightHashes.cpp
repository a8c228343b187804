//===- WeightHashes.cpp - Hashes of parts of weight files -----------------===//

#include "WeightHashes.h"
#include "support/ContentHash.h"

using namespace pp;

llvm::ErrorOr<uint64_t> WeightHashes::get(llvm::StringRef file, uint64_t offset,
                                          uint64_t bytes) {
  std::tuple key(file.str(), offset, bytes);
  if (auto known = hashes.find(key); known != hashes.end())
    return known->second;
  std::unique_ptr<llvm::MemoryBuffer> &buffer = files[file];
  if (!buffer) {
    auto opened = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                              /*RequiresNullTerminator=*/false);
    if (!opened)
      return opened.getError();
    buffer = std::move(*opened);
  }
  uint64_t size = buffer->getBufferSize();
  if (offset > size || bytes > size - offset)
    return std::make_error_code(std::errc::result_out_of_range);
  uint64_t hash =
      runtime::hashContent(buffer->getBufferStart() + offset, bytes);
  hashes.emplace(std::move(key), hash);
  return hash;
}
