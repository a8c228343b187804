//===- MockProgram.h - A GPU's kernels on the processor -------------------===//
#ifndef PP_RUNTIME_MOCK_MOCKPROGRAM_H
#define PP_RUNTIME_MOCK_MOCKPROGRAM_H

#include "device/CpuKernel.h"
#include "pprt/pprt.h"

#include <map>
#include <string_view>

namespace pp::runtime {

/// A program for the target `mock`: launches run the mock kernels, block by
/// block; library kernels are the processor's.
class MockProgram : public CpuProgram {
public:
  explicit MockProgram(const pp_pipeline &program);

  std::unique_ptr<Kernel> createKernel(const PlanKernel &kernel,
                                       std::string &error) override;

private:
  std::map<std::string_view, const pp_mock_kernel *> kernels;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_MOCKPROGRAM_H
