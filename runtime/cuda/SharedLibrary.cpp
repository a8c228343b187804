//===- SharedLibrary.cpp --------------------------------------------------===//
#include "SharedLibrary.h"
#include "Failure.h"

#include <cstdlib>
#include <dlfcn.h>
#include <vector>

using namespace pp::cuda;

SharedLibrary::SharedLibrary(const std::string &file,
                             const std::string &purpose)
    : file(file) {
  std::vector<std::string> places = {file};
  if (const char *home = std::getenv("CUDA_HOME"); home && *home)
    places.push_back(std::string(home) + "/lib64/" + file);
  places.push_back("/usr/local/cuda/lib64/" + file);
  std::string reasons;
  for (const std::string &place : places) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle)
      return;
    const char *reason = dlerror();
    reasons += std::string("\n  ") + (reason ? reason : place.c_str());
  }
  throw Failure(Failure::Usage,
                purpose + " needs " + file +
                    ", which cannot be loaded; install it, or set CUDA_HOME or "
                    "LD_LIBRARY_PATH so that it is found:" +
                    reasons);
}

void *SharedLibrary::getSymbol(const char *name) const {
  void *symbol = dlsym(handle, name);
  if (!symbol)
    throw Failure(Failure::Usage, file + " has no function '" + name +
                                      "': install a newer version");
  return symbol;
}
