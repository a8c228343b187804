//===- ImportFiles.cpp - Runs ImportFuzzer.cpp over files -----------------===//
//
//   pp-import-files LIST
//
// For compilers without libFuzzer, and for mutations made elsewhere: many files
// in one process. LIST has a path per line; each is printed before it is
// imported, with the largest memory so far in KiB, so that whoever reads it
// knows which one was the last.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long peakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pp-import-files LIST\n");
    return 2;
  }
  std::ifstream list(argv[1]);
  for (std::string path; std::getline(list, path);) {
    std::printf("%ld %s\n", peakMemory(), path.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return 4;
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()),
                           bytes.size());
  }
  std::printf("%ld end\n", peakMemory());
  return 0;
}
