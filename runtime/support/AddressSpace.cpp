//===- AddressSpace.cpp ---------------------------------------------------===//
#include "support/AddressSpace.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace pp::runtime;

static rlim_t limit() {
  rlimit value{};
  return getrlimit(RLIMIT_AS, &value) == 0 ? value.rlim_cur : RLIM_INFINITY;
}

/// As the kernel counts for the limit; 0: not known. Takes no memory.
static uint64_t used() {
  char text[64] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  ssize_t bytes = read(file, text, sizeof(text) - 1);
  close(file);
  return bytes <= 0 ? 0
                    : std::strtoull(text, nullptr, 10) *
                          static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

static uint64_t inKilobytes(uint64_t bytes) { return (bytes + 1023) / 1024; }

void pp::runtime::prepareForLimit() {
  if (limit() != RLIM_INFINITY)
    mallopt(M_ARENA_MAX, 1);
}

void pp::runtime::requireAddressSpace(uint64_t bytes, const std::string &what) {
  rlim_t allowed = limit();
  if (allowed == RLIM_INFINITY || bytes == 0)
    return;
  // Not by asking for it: what is there for a moment would miss elsewhere.
  uint64_t have = used();
  if (have <= allowed && bytes <= allowed - have)
    return;
  throw Error(ErrorKind::IO,
              fmt::format("too little memory: {} needs {} kB beside the {} kB "
                          "that this process has, and ulimit -v allows {} kB "
                          "in all; it has to allow about {} kB",
                          what, inKilobytes(bytes), inKilobytes(have),
                          inKilobytes(allowed), inKilobytes(have + bytes)));
}

void pp::runtime::printOutOfMemory() noexcept {
  rlim_t allowed = limit();
  char text[200], most[60] = "";
  if (allowed != RLIM_INFINITY)
    std::snprintf(most, sizeof(most), ", and ulimit -v allows %llu kB",
                  static_cast<unsigned long long>(inKilobytes(allowed)));
  int bytes = std::snprintf(
      text, sizeof(text),
      "error: out of memory: this process has %llu kB of address space%s\n",
      static_cast<unsigned long long>(inKilobytes(used())), most);
  // Not through a stream, which may want a buffer.
  (void)!write(STDERR_FILENO, text, static_cast<size_t>(std::max(bytes, 0)));
}
