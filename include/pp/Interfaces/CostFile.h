//===- CostFile.h - Measured times ------------------------------*- C++ -*-===//

#ifndef PP_INTERFACES_COSTFILE_H
#define PP_INTERFACES_COSTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <set>
#include <string>

namespace pp {

/// What pp-profile measures, in seconds (docs/cost-format.md).
struct CostFile {
  /// Who else computes on the machine: cores share caches, the way to memory
  /// and what the processor may take of power.
  enum class Others {
    Busy, ///< All other cores do the same, as in a pipeline or replicas.
    Idle  ///< None: one stage on one device.
  };

  /// By key: that of the kernel (KernelOpInterface), with the number of threads
  /// and ` alone` behind it.
  std::map<std::string, double, std::less<>> kernels;
  static std::string keyIn(int64_t threads, const std::string &kernel);
  /// The time of a kernel that `threads` compute together; with idle others
  /// that with busy ones, where only that is known.
  std::optional<double> findKernel(int64_t threads, const std::string &kernel,
                                   Others others) const;
  /// Whether it has times with idle others.
  bool knowsAlone(int64_t threads) const { return alone.count(threads) != 0; }

  /// What a rank does between two steps, per byte of its parameters: the
  /// optimizer, and gradients set to zero. By the threads of a rank that were
  /// measured; nothing where only the rest was.
  std::map<int64_t, std::optional<double>> updateSecondsPerByte;
  /// The same with idle others, by the threads that were measured so.
  std::map<int64_t, double> updateAlone;
  /// The numbers of threads that there are times for, and those for which there
  /// are some with idle others. Costs of inference have no update.
  std::set<int64_t> threads = {1}, alone;
  std::optional<double> findUpdate(int64_t threads, Others others) const;
  /// From the end of a send to the receiver that waited for it.
  std::optional<double> transferLatency;

  /// Fails with the path and what is wrong, which includes that the times are
  /// those of another kind of target than `target` ("cpu", "cuda:sm_90").
  static llvm::Expected<CostFile> read(llvm::StringRef path,
                                       llvm::StringRef target);
};

} // namespace pp

#endif // PP_INTERFACES_COSTFILE_H
