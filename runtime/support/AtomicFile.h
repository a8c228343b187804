//===- AtomicFile.h - Files that are whole or not there -------------------===//
#ifndef PP_RUNTIME_SUPPORT_ATOMICFILE_H
#define PP_RUNTIME_SUPPORT_ATOMICFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace pp::runtime {

/// Writes to a temporary file beside `path`; commit() makes it durable (fsync)
/// and gives it its name. Without commit() nothing is left behind, unless the
/// process is killed: then the next one for `path` removes it. Throws Error(IO)
/// naming `path`; what was there before stays.
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, uint64_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Writes over what was written before, `offset` bytes from the start.
  void rewrite(uint64_t offset, std::string_view text);
  void commit();
  /// Path of the temporary file, for libraries that write by themselves.
  const std::string &getTemporaryPath() const { return temporary; }

private:
  bool tryToCreate();

  std::string path, temporary;
  int descriptor = -1;
};

/// Removes temporary files of processes that ended while they wrote `path`.
void removeAbandonedFiles(const std::string &path) noexcept;

/// Writes a whole file at once.
void writeFileAtomically(const std::string &path, std::string_view text);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_ATOMICFILE_H
