//===- FileLock.cpp -------------------------------------------------------===//
#include "support/FileLock.h"
#include "support/Error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

using namespace pp::runtime;

FileLock::FileLock(const std::string &path) : lock(path + ".lock") {
  while (!tryToOpen(path))
    ;
}

/// What the holder has written.
static std::string holderOf(int descriptor) {
  std::array<char, 300> text{};
  ssize_t bytes = pread(descriptor, text.data(), text.size() - 1, 0);
  std::string holder(text.data(), bytes > 0 ? bytes : 0);
  return holder.empty() ? "another process" : holder;
}

/// Returns false where the file is not the one of that name any more.
bool FileLock::tryToOpen(const std::string &path) {
  descriptor = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    failIO("cannot create '" + lock + "'");
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    std::string holder = holderOf(descriptor);
    close(descriptor);
    throw Error(ErrorKind::IO,
                fmt::format("'{}' is being written by {}, which holds '{}'; "
                            "end that run or choose another file",
                            path, holder, lock));
  }
  // The one before may have removed it in between.
  struct stat here{}, there{};
  if (fstat(descriptor, &here) != 0 || stat(lock.c_str(), &there) != 0 ||
      here.st_ino != there.st_ino || here.st_dev != there.st_dev) {
    close(descriptor);
    return false;
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string text =
      fmt::format("process {} on {}", getpid(), std::string(host.data()));
  // For the message alone.
  if (ftruncate(descriptor, 0) == 0)
    (void)!pwrite(descriptor, text.data(), text.size(), 0);
  return true;
}

FileLock::~FileLock() {
  unlink(lock.c_str()); // still locked
  close(descriptor);
}
