//===- CostFile.h - Measured times ------------------------------*- C++ -*-===//

#ifndef PP_INTERFACES_COSTFILE_H
#define PP_INTERFACES_COSTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>

namespace pp {

/// What pp-profile measures, in seconds (docs/cost-format.md).
struct CostFile {
  /// By key: that of the kernel (KernelOpInterface) where it runs in `threads`.
  std::map<std::string, double, std::less<>> kernels;
  static std::string keyIn(int64_t threads, const std::string &kernel);
  /// What a rank does between two steps, per byte of its parameters: the
  /// optimizer, and gradients set to zero. By the threads of a rank that were
  /// measured; nothing where only the rest was.
  std::map<int64_t, std::optional<double>> updateSecondsPerByte;
  /// From the end of a send to the receiver that waited for it.
  std::optional<double> transferLatency;

  /// Fails with the path and what is wrong, which includes that the times are
  /// those of another kind of target than `target` ("cpu", "cuda:sm_90").
  static llvm::Expected<CostFile> read(llvm::StringRef path,
                                       llvm::StringRef target);
};

} // namespace pp

#endif // PP_INTERFACES_COSTFILE_H
