//===- KernelTimes.h - Measured times of library kernels --------*- C++ -*-===//
//
// What `pp-profile --tune` measured on a machine. Passes that choose between
// kernels ask for the times of all candidates; where one of them is missing,
// they decide by their own rules.
//
// Times are those of one thread, whatever number of threads a stage has: a
// choice changes the last bits of a result, and these must not depend on it.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_KERNELTIMES_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_KERNELTIMES_H

#include "pp/Interfaces/CostFile.h"

#include "mlir/IR/Operation.h"

namespace pp::nn {

class KernelTimes {
public:
  /// Knows nothing.
  KernelTimes() = default;
  /// Of a tuning file for the processor; an empty path is none. Says at `where`
  /// what is wrong with it.
  static mlir::FailureOr<KernelTimes> read(mlir::Operation *where,
                                           llvm::StringRef path);

  bool isEmpty() const { return file.kernels.empty(); }

  /// Seconds of the kernel with this descriptor, in which nothing is packed.
  std::optional<double> findPlain(const std::string &descriptor) const;
  /// Seconds of the same kernel with a packed factor, and its share of packing
  /// where each packed factor is read `uses` times; 0: without limit.
  std::optional<double> findPacked(const std::string &descriptor,
                                   int64_t uses) const;
  /// The less of both; nothing if neither is known.
  std::optional<double> findFastest(const std::string &descriptor,
                                    int64_t uses) const;

private:
  /// Of the kernel whose key is `prefix` and the bytes of what is packed.
  std::optional<double> findWithBytes(const std::string &prefix) const;

  CostFile file;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_KERNELTIMES_H
