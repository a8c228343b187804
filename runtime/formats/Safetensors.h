//===- Safetensors.h - Hugging Face's tensor file format ------------------===//
#ifndef PP_RUNTIME_FORMATS_SAFETENSORS_H
#define PP_RUNTIME_FORMATS_SAFETENSORS_H

#include "plan/DataType.h"
#include "support/ContentHash.h"
#include "support/MappedFile.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pp::runtime {

/// A tensor to write; the data belongs to the caller.
struct TensorView {
  DataType type;
  Shape shape;
  const char *data;
  uint64_t bytes() const { return *elementCount(shape) * sizeOf(type); }
};

/// A mapped safetensors file. The constructor checks everything: size of the
/// header (at most 100 MB), dtypes, shapes, ranges, overlaps and gaps; it
/// throws Error(InvalidInput) naming the file and tensor.
class SafetensorsFile {
public:
  explicit SafetensorsFile(const std::string &path);

  const std::string &getPath() const { return path; }
  const std::map<std::string, TensorView> &getTensors() const {
    return tensors;
  }
  const std::map<std::string, std::string> &getMetadata() const {
    return metadata;
  }
  const TensorView *find(const std::string &name) const;

  /// Throw Error(InvalidInput) where the metadata, or a tensor of the file, is
  /// not what was written. Files without hashes pass.
  void verifyMetadata() const;
  void verify(const std::string &name) const;

private:
  std::string path;
  MappedFile file;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

class AtomicFile;

/// Takes the bytes of one tensor, in any number of pieces.
class TensorSink {
public:
  explicit TensorSink(AtomicFile &file) : file(file) {}
  void write(const void *data, uint64_t bytes);
  uint64_t getHash() const { return hash.get(); }

private:
  AtomicFile &file;
  ContentHash hash;
};

/// Writes exactly the bytes of the tensor `name`.
using TensorWriter =
    std::function<void(const std::string &name, TensorSink &sink)>;

/// Writes the tensors in the order of their names, whole or not at all. With
/// `writer`, their `data` is not used. With `hashes`, the metadata has a hash
/// of each tensor, `hash.<name>`, and one of the rest of the metadata, `hash`.
void writeSafetensors(const std::string &path,
                      const std::map<std::string, TensorView> &tensors,
                      const std::map<std::string, std::string> &metadata,
                      const TensorWriter &writer = {}, bool hashes = false);

} // namespace pp::runtime

#endif // PP_RUNTIME_FORMATS_SAFETENSORS_H
