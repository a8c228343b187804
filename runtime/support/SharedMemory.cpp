//===- SharedMemory.cpp ---------------------------------------------------===//
#include "support/SharedMemory.h"
#include "support/Error.h"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace pp::runtime;

/// What this process has made, by descriptor.
static std::mutex madeMutex;
static std::map<int, std::weak_ptr<void>> made;

SharedMemory::Mapping::Mapping(int descriptor) : descriptor(descriptor) {
  struct stat status{};
  fstat(descriptor, &status);
  bytes = static_cast<uint64_t>(status.st_size);
  void *place =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (place == MAP_FAILED) {
    int code = errno;
    close(descriptor);
    errno = code;
    failIO(fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  base = static_cast<char *>(place);
}

SharedMemory::Mapping::~Mapping() {
  munmap(base, bytes);
  close(descriptor);
}

SharedMemory::SharedMemory(uint64_t bytes) {
  int descriptor = memfd_create("pp-mlir", MFD_CLOEXEC);
  if (descriptor < 0)
    failIO("memfd_create");
  // Reserves the memory now: a page that is missing later would be a signal.
  int code = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (code != 0) {
    close(descriptor);
    errno = code;
    failIO(fmt::format("cannot allocate {} bytes of shared memory", bytes));
  }
  mapping = std::make_shared<Mapping>(descriptor);
  std::lock_guard<std::mutex> lock(madeMutex);
  made[descriptor] = mapping;
}

/// Both numbers of "process:descriptor".
static std::pair<int, int> parse(const std::string &handle) {
  std::pair<int, int> result;
  const char *end = handle.data() + handle.size();
  auto first = std::from_chars(handle.data(), end, result.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':' ||
      std::from_chars(first.ptr + 1, end, result.second).ptr != end)
    throw Error(ErrorKind::IO,
                fmt::format("'{}' names no shared memory", handle));
  return result;
}

SharedMemory::SharedMemory(const std::string &handle) {
  auto [process, number] = parse(handle);
  if (process == getpid())
    if (std::lock_guard<std::mutex> lock(madeMutex); made.count(number))
      mapping = std::static_pointer_cast<Mapping>(made[number].lock());
  if (mapping)
    return;
  std::string path = fmt::format("/proc/{}/fd/{}", process, number);
  int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    failIO(path);
  mapping = std::make_shared<Mapping>(descriptor);
}

std::string SharedMemory::getHandle() const {
  return fmt::format("{}:{}", getpid(), mapping->descriptor);
}

std::string SharedMemory::machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status{};
  // In another namespace a process has another number.
  stat("/proc/self/ns/pid", &status);
  return fmt::format("{}-{}", boot, status.st_ino);
}
