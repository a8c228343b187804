//===- ArrayData.h - The bytes of an array ----------------------*- C++ -*-===//
#ifndef PP_RUNTIME_FORMATS_ARRAYDATA_H
#define PP_RUNTIME_FORMATS_ARRAYDATA_H

#include "support/MappedFile.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// Bytes of its own; or those of a file, which then are in memory only as far
/// as they have been read, and as long as there is room; or those of somebody
/// else, who keeps them. Whoever asks for bytes to change them gets a copy
/// first. Copies share what is not their own.
class ArrayData {
public:
  ArrayData() = default;
  ArrayData(std::vector<char> bytes) : own(std::move(bytes)) {}
  ArrayData(std::shared_ptr<const MappedFile> file, uint64_t offset)
      : outside(file->view().substr(offset)), file(std::move(file)) {}
  /// Bytes that outlive the object.
  static ArrayData borrow(const void *bytes, uint64_t size) {
    ArrayData result;
    result.outside = {static_cast<const char *>(bytes), size};
    return result;
  }

  const char *data() const { return isOwn() ? own.data() : outside.data(); }
  uint64_t size() const { return isOwn() ? own.size() : outside.size(); }
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
  bool isOwn() const { return outside.data() == nullptr; }
  std::vector<char> &changed() {
    if (!isOwn()) {
      own.assign(outside.begin(), outside.end());
      outside = {};
      file.reset();
    }
    return own;
  }

  std::vector<char> own;
  std::string_view outside; // without an address: `own` counts
  std::shared_ptr<const MappedFile> file;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_FORMATS_ARRAYDATA_H
