//===- MappedFile.cpp -----------------------------------------------------===//
#include "support/MappedFile.h"
#include "support/Error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

using namespace pp::runtime;

MappedFile::MappedFile(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    failIO("cannot open '" + path + "'");
  struct stat status;
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error(ErrorKind::IO, "'" + path + "' is not a regular file");
  }
  length = status.st_size;
  if (length) {
    void *address =
        ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      ::close(descriptor);
      failIO("cannot map the " + std::to_string(length) + " bytes of '" + path +
             "'");
    }
    bytes = static_cast<const char *>(address);
  }
  ::close(descriptor);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}

MappedFile::~MappedFile() {
  if (bytes)
    ::munmap(const_cast<char *>(bytes), length);
}
