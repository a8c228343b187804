//===- Module.h - Loaded device code --------------------------------------===//
#ifndef PP_RUNTIME_CUDA_MODULE_H
#define PP_RUNTIME_CUDA_MODULE_H

#include "Context.h"
#include "pprt/pprt.h"

#include <string>

namespace pp::cuda {

class Module {
public:
  /// The cubin where it is for this GPU, else the PTX, which the driver
  /// compiles. Throws Failure(Usage) where neither can run here.
  Module(Context &context, const pp_device_code &code);
  /// PTX, null terminated.
  Module(Context &context, const std::string &assembly);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  /// Throws Failure(Internal) where there is none.
  CUfunction getFunction(const std::string &name) const;

private:
  void compile(const char *assembly, const std::string &binaryError);

  Context &context;
  CUmodule handle = nullptr;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_MODULE_H
