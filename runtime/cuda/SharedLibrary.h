//===- SharedLibrary.h - Finds NVIDIA's libraries -------------------------===//
#ifndef PP_RUNTIME_CUDA_SHAREDLIBRARY_H
#define PP_RUNTIME_CUDA_SHAREDLIBRARY_H

#include <string>

namespace pp::cuda {

/// A library that is looked up when it is needed first, so that a program needs
/// only those that its kernels use. Never unloaded.
class SharedLibrary {
public:
  /// Tries the loader's path, then lib64 of CUDA_HOME and of /usr/local/cuda.
  /// Throws Failure(Usage) with `purpose`, a sentence that says what wants it.
  SharedLibrary(const std::string &file, const std::string &purpose);

  /// Throws Failure(Usage) where the library is too old to have the symbol.
  void *getSymbol(const char *name) const;
  /// What dlopen gave.
  void *getHandle() const { return handle; }

private:
  std::string file;
  void *handle = nullptr;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_SHAREDLIBRARY_H
