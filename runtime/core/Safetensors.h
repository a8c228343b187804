//===- Safetensors.h - Hugging Face's tensor file format ------------------===//
#ifndef PP_RUNTIME_CORE_SAFETENSORS_H
#define PP_RUNTIME_CORE_SAFETENSORS_H

#include "core/DataType.h"
#include "core/MappedFile.h"

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

private:
  std::string path;
  MappedFile file;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

class AtomicFile;

/// Writes exactly the bytes of the tensor `name`.
using TensorWriter =
    std::function<void(const std::string &name, AtomicFile &file)>;

/// Writes the tensors in the order of their names, whole or not at all. With
/// `writer`, their `data` is not used.
void writeSafetensors(const std::string &path,
                      const std::map<std::string, TensorView> &tensors,
                      const std::map<std::string, std::string> &metadata,
                      const TensorWriter &writer = {});

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_SAFETENSORS_H
