//===- JitBinary.h - A pipeline binary in this process ----------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PROFILE_JITBINARY_H
#define PP_TOOLS_PP_PROFILE_JITBINARY_H

#include "pprt/pprt.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Error.h"

namespace pp {

/// Object code of a compilation that marks its kernels, loaded into this
/// process.
class JitBinary {
public:
  static llvm::Expected<JitBinary> load(llvm::StringRef object);

  /// Valid as long as the object lives.
  const pp_binary &get() const { return *binary; }

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const pp_binary *binary = nullptr;
};

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_JITBINARY_H
