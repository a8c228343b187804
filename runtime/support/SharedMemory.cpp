//===- SharedMemory.cpp ---------------------------------------------------===//
#include "support/SharedMemory.h"
#include "support/Error.h"

#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace pp::runtime;

SharedMemory::SharedMemory(uint64_t size) : bytes(size) {
  descriptor = memfd_create("pp-mlir", MFD_CLOEXEC);
  if (descriptor < 0)
    failIO("memfd_create");
  // Reserves the memory now: a page that is missing later would be a signal.
  int code = posix_fallocate(descriptor, 0, static_cast<off_t>(size));
  if (code != 0) {
    close(descriptor);
    errno = code;
    failIO(fmt::format("cannot allocate {} bytes of shared memory", size));
  }
  map();
}

SharedMemory::SharedMemory(const std::string &handle) {
  size_t colon = handle.find(':');
  if (colon == std::string::npos ||
      handle.find_first_not_of("0123456789:") != std::string::npos)
    throw Error(ErrorKind::IO,
                fmt::format("'{}' names no shared memory", handle));
  std::string path = fmt::format("/proc/{}/fd/{}", handle.substr(0, colon),
                                 handle.substr(colon + 1));
  descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    failIO(path);
  struct stat status{};
  fstat(descriptor, &status);
  bytes = static_cast<uint64_t>(status.st_size);
  map();
}

void SharedMemory::map() {
  void *place =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (place == MAP_FAILED) {
    close(descriptor);
    failIO(fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  base = static_cast<char *>(place);
}

SharedMemory::SharedMemory(SharedMemory &&other) noexcept
    : base(std::exchange(other.base, nullptr)), bytes(other.bytes),
      descriptor(std::exchange(other.descriptor, -1)) {}

SharedMemory &SharedMemory::operator=(SharedMemory &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  std::swap(descriptor, other.descriptor);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!base)
    return;
  munmap(base, bytes);
  close(descriptor);
}

std::string SharedMemory::getHandle() const {
  return fmt::format("{}:{}", getpid(), descriptor);
}

std::string SharedMemory::machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status{};
  // In another namespace a process has another number.
  stat("/proc/self/ns/pid", &status);
  return fmt::format("{}-{}", boot, status.st_ino);
}
