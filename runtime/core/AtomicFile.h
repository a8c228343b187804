//===- AtomicFile.h - Files that are whole or not there -------------------===//
#ifndef PP_RUNTIME_CORE_ATOMICFILE_H
#define PP_RUNTIME_CORE_ATOMICFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace pp::runtime {

/// Writes to a temporary file beside `path`; commit() makes it durable (fsync)
/// and gives it its name. Without commit() nothing is left behind. Throws
/// Error(IO).
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, uint64_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();
  /// Path of the temporary file, for libraries that write by themselves.
  const std::string &getTemporaryPath() const { return temporary; }

private:
  std::string path, temporary;
  int descriptor = -1;
};

/// Writes a whole file at once.
void writeFileAtomically(const std::string &path, std::string_view text);

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_ATOMICFILE_H
