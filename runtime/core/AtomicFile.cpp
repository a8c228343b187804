//===- AtomicFile.cpp -----------------------------------------------------===//
#include "core/AtomicFile.h"
#include "support/Error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace pp::runtime;

AtomicFile::AtomicFile(std::string target)
    : path(std::move(target)), temporary(path + ".XXXXXX") {
  descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0)
    failIO("cannot create a file beside '" + path + "'");
  // mkstemp gives 0600; results are ordinary files.
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  ::unlink(temporary.c_str());
}

void AtomicFile::write(const void *data, uint64_t bytes) {
  const char *position = static_cast<const char *>(data);
  while (bytes) {
    ssize_t written =
        ::write(descriptor, position, std::min<uint64_t>(bytes, 1 << 30));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      failIO("cannot write '" + path + "'");
    position += written;
    bytes -= written;
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor) != 0)
    failIO("cannot write '" + path + "'");
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    failIO("cannot rename '" + temporary + "' to '" + path + "'");
  ::close(descriptor);
  descriptor = -1;
  // The new name itself is durable only once the directory is.
  auto directory = std::filesystem::path(path).parent_path().string();
  int handle = ::open(directory.empty() ? "." : directory.c_str(),
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    ::fsync(handle);
    ::close(handle);
  }
}

void pp::runtime::writeFileAtomically(const std::string &path,
                                      std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}
