//===- Target.h - What code is made for -------------------------*- C++ -*-===//

#ifndef PP_SUPPORT_TARGET_H
#define PP_SUPPORT_TARGET_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace pp {

/// The processor, a GPU, or a GPU whose kernels the processor runs, for tests.
class Target {
public:
  /// "cpu", "mock", "cuda:sm_90", or "cuda", which stands for the latter.
  /// Nothing for other names and for GPUs before sm_70.
  static std::optional<Target> parse(llvm::StringRef name);
  /// For messages about names that parse does not know.
  static constexpr llvm::StringLiteral known =
      "cpu, mock, cuda or cuda:sm_NN with NN of at least 70";

  Target() = default;

  bool isCpu() const { return kind == Kind::Cpu; }
  bool isMock() const { return kind == Kind::Mock; }
  /// Whether kernels are launched and not called; so too where they are those
  /// of the mock device.
  bool isGpu() const { return kind != Kind::Cpu; }
  /// Of a real GPU: the N of sm_N.
  std::optional<unsigned> getArchitecture() const {
    return kind == Kind::Cuda ? std::optional(architecture) : std::nullopt;
  }
  /// Of a real GPU: "sm_90", with an `a` behind it if it was given.
  llvm::StringRef getChip() const { return chip; }

  /// What parse reads.
  std::string str() const;

  bool operator==(const Target &) const = default;

private:
  enum class Kind { Cpu, Mock, Cuda };

  Kind kind = Kind::Cpu;
  unsigned architecture = 0;
  std::string chip;
};

} // namespace pp

#endif // PP_SUPPORT_TARGET_H
