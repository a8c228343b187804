//===- ArrayData.h - The bytes of an array ----------------------*- C++ -*-===//
#ifndef PP_RUNTIME_FORMATS_ARRAYDATA_H
#define PP_RUNTIME_FORMATS_ARRAYDATA_H

#include "support/MappedFile.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace pp::runtime {

/// Bytes of its own, or of a file, which then are in memory only as far as they
/// have been read, and as long as there is room. Whoever asks for bytes to
/// change them gets a copy of the whole file first. Copies share the file.
class ArrayData {
public:
  ArrayData() = default;
  ArrayData(std::vector<char> bytes) : own(std::move(bytes)) {}
  ArrayData(std::shared_ptr<const MappedFile> file, uint64_t offset)
      : file(std::move(file)), offset(offset) {}

  const char *data() const { return file ? file->data() + offset : own.data(); }
  uint64_t size() const { return file ? file->size() - offset : own.size(); }
  bool empty() const { return size() == 0; }
  const char *begin() const { return data(); }
  const char *end() const { return data() + size(); }
  const char &operator[](uint64_t i) const { return data()[i]; }

  char *data() { return changed().data(); }
  char &operator[](uint64_t i) { return changed()[i]; }
  void resize(uint64_t bytes) { changed().resize(bytes); }

  friend bool operator==(const ArrayData &a, const ArrayData &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  std::vector<char> &changed() {
    if (file) {
      own.assign(file->data() + offset, file->data() + file->size());
      file.reset();
    }
    return own;
  }

  std::vector<char> own;
  std::shared_ptr<const MappedFile> file; // null: `own` counts
  uint64_t offset = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_FORMATS_ARRAYDATA_H
