//===- EmulatedProgram.h - A GPU's kernels on the processor -----*- C++ -*-===//
#ifndef PP_RUNTIME_MOCK_EMULATEDPROGRAM_H
#define PP_RUNTIME_MOCK_EMULATEDPROGRAM_H

#include "device/CpuKernel.h"
#include "pprt/pprt.h"

#include <map>
#include <string_view>

namespace pp::runtime {

/// A program for the target `mock`: launches run the emulated kernels, block by
/// block; library kernels are the processor's.
class EmulatedProgram : public CpuProgram {
public:
  explicit EmulatedProgram(const pp_program &program);

  std::unique_ptr<Kernel> createKernel(const PlanKernel &kernel,
                                       std::string &error) override;

private:
  std::map<std::string_view, const pp_emulated_kernel *> kernels;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_EMULATEDPROGRAM_H
