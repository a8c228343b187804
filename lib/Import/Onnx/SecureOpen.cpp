//===- SecureOpen.cpp - Open a file below a folder, and nothing else ------===//
#include "SecureOpen.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static constexpr int fileFlags =
    O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;

llvm::Expected<std::string>
pp::onnx::normalizeLocation(llvm::StringRef location) {
  if (location.empty())
    return llvm::createStringError("the location is empty");
  if (location.contains('\0'))
    return llvm::createStringError("the location holds a null character");
  if (location.starts_with("/"))
    return llvm::createStringError("the location is an absolute path");
  llvm::SmallVector<llvm::StringRef> components, kept;
  location.split(components, '/');
  for (llvm::StringRef component : components) {
    if (component == "..")
      return llvm::createStringError(
          "the location may lie outside the model's folder: it has a "
          "'..' component");
    if (!component.empty() && component != ".")
      kept.push_back(component);
  }
  if (kept.empty())
    return llvm::createStringError("the location names a folder");
  return llvm::join(kept, "/");
}

static llvm::Error openFailure() {
  if (errno == ELOOP)
    return llvm::createStringError("it is, or lies behind, a symbolic link");
  return llvm::createStringError(
      std::error_code(errno, std::generic_category()).message());
}

/// Component by component: each is opened without following links, so its
/// parent cannot be exchanged for a link between check and use.
static llvm::Expected<int> openStepwise(int folder, llvm::StringRef location) {
  llvm::SmallVector<llvm::StringRef> components;
  location.split(components, '/');
  int current = folder;
  for (size_t i = 0, e = components.size(); i != e; ++i) {
    bool last = i + 1 == e;
    std::string name = components[i].str();
    int next = ::openat(current, name.c_str(),
                        last ? fileFlags : O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    struct stat status;
    // With O_PATH a link is opened itself instead of failing.
    if (next >= 0 && !last && ::fstat(next, &status) == 0 &&
        !S_ISDIR(status.st_mode)) {
      error = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR;
      ::close(next);
      next = -1;
    }
    if (current != folder)
      ::close(current);
    if (next < 0) {
      errno = error;
      return openFailure();
    }
    current = next;
  }
  return current;
}

llvm::Expected<int> pp::onnx::openBeneath(int folder, llvm::StringRef location,
                                          bool withoutOpenat2) {
  if (withoutOpenat2)
    return openStepwise(folder, location);
  struct open_how how;
  std::memset(&how, 0, sizeof(how));
  how.flags = fileFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  std::string path = location.str();
  long descriptor = -1;
  // EAGAIN: a rename happened during the walk.
  for (int attempt = 0; attempt < 16; ++attempt) {
    descriptor =
        ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how));
    if (descriptor >= 0 || (errno != EINTR && errno != EAGAIN))
      break;
  }
  if (descriptor >= 0)
    return static_cast<int>(descriptor);
  // Old kernels, and sandboxes that filter the call.
  if (errno == ENOSYS || errno == EPERM)
    return openStepwise(folder, location);
  return openFailure();
}
