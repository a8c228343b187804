//===- DeviceEmitter.h - From the device module to GPU code -----*- C++ -*-===//

#ifndef PP_TARGET_DEVICEEMITTER_H
#define PP_TARGET_DEVICEEMITTER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace pp {

/// The kernels of a program for a GPU.
struct DeviceCode {
  /// PTX, which the driver can compile for any chip that is not older.
  std::string assembly;
  /// A cubin for the chip; empty where no ptxas was found.
  std::string binary;
  /// What ptxas says about registers and spills; empty without it.
  std::string report;
};

/// Makes the code of the module @device, which is in the LLVM dialect, for
/// `chip` ("sm_90"). ptxas is looked up as PP_PTXAS, on the PATH, in
/// CUDA_HOME/bin and in /usr/local/cuda/bin. The same input gives the same
/// assembly.
llvm::Expected<DeviceCode> emitDeviceCode(mlir::ModuleOp program,
                                          llvm::StringRef chip);

/// The path of ptxas, or an empty string.
std::string findPtxas();

} // namespace pp

#endif // PP_TARGET_DEVICEEMITTER_H
