//===- AtomicFile.cpp -----------------------------------------------------===//
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace pp::runtime;

static constexpr std::string_view infix = ".tmp-";
static constexpr std::string_view letters = "XXXXXX"; // of mkstemp

/// Whoever writes a temporary file holds a lock on it, which ends with the
/// process.
static void removeIfAbandoned(const char *name) {
  int file = ::open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0)
    return;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0)
    ::unlink(name);
  ::close(file);
}

void pp::runtime::removeAbandonedFiles(const std::string &path) noexcept {
  try {
    namespace fs = std::filesystem;
    fs::path folder = fs::path(path).parent_path();
    std::string start = fs::path(path).filename().string() + std::string(infix);
    std::error_code error;
    fs::directory_iterator it(folder.empty() ? "." : folder, error), end;
    for (; !error && it != end; it.increment(error)) {
      std::string name = it->path().filename().string();
      if (name.size() == start.size() + letters.size() &&
          name.starts_with(start))
        removeIfAbandoned(it->path().c_str());
    }
  } catch (const std::exception &) {
    return; // There may be no memory; the next one tries again.
  }
}

/// Returns false where somebody took the file for abandoned before it was
/// locked.
bool AtomicFile::tryToCreate() {
  temporary = path + std::string(infix) + std::string(letters);
  descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0)
    failIO("cannot create a file beside '" + path + "'");
  struct stat status{};
  if (::flock(descriptor, LOCK_EX) == 0 && ::fstat(descriptor, &status) == 0 &&
      status.st_nlink == 0) {
    ::close(descriptor);
    return false;
  }
  return true;
}

AtomicFile::AtomicFile(std::string target) : path(std::move(target)) {
  removeAbandonedFiles(path);
  while (!tryToCreate())
    ;
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

void AtomicFile::rewrite(uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::pwrite(descriptor, text.data(), text.size(),
                               static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      failIO("cannot write '" + path + "'");
    text.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
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
