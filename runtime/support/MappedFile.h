//===- MappedFile.h - A file in memory, read only -------------------------===//
#ifndef PP_RUNTIME_SUPPORT_MAPPEDFILE_H
#define PP_RUNTIME_SUPPORT_MAPPEDFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace pp::runtime {

/// A private, read-only mapping. Throws Error(IO) when the file cannot be
/// opened. Movable; the mapping ends with the object.
class MappedFile {
public:
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  uint64_t size() const { return length; }
  const char *data() const { return bytes; }
  std::string_view view() const { return {bytes, length}; }

private:
  const char *bytes = nullptr;
  uint64_t length = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_MAPPEDFILE_H
