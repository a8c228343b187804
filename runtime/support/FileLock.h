//===- FileLock.h - One writer of a file ----------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_FILELOCK_H
#define PP_RUNTIME_SUPPORT_FILELOCK_H

#include <string>

namespace pp::runtime {

/// Holds `<path>.lock`, which says the process and the machine, as long as the
/// object lives; the system releases it when the process ends, however that
/// happens. Throws Error(IO) naming the holder where another process has it, or
/// where the file cannot be made. Where the file system has no locks, nothing
/// is held.
class FileLock {
public:
  explicit FileLock(const std::string &path);
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  bool tryToOpen(const std::string &path);

  std::string lock;
  int descriptor = -1;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_FILELOCK_H
