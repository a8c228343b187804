//===- KernelReport.h - What GPU kernels need of a chip ---------*- C++ -*-===//

#ifndef PP_TARGET_KERNELREPORT_H
#define PP_TARGET_KERNELREPORT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace pp {

/// One kernel, as ptxas assembled it.
struct KernelResources {
  std::string name;
  unsigned registers = 0; // of a thread
  unsigned stackBytes = 0, spillStoreBytes = 0, spillLoadBytes = 0;
  unsigned sharedBytes = 0; // of a block
};

/// Reads what `ptxas -v` printed; in the order of the names.
std::vector<KernelResources> parseKernelReport(llvm::StringRef text);

/// A table, and below it how many kernels spill registers.
void printKernelReport(llvm::ArrayRef<KernelResources> kernels,
                       llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TARGET_KERNELREPORT_H
