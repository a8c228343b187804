//===- TrainingChoice.h - Which initializers are trained --------*- C++ -*-===//
//
// ONNX does not tell a parameter from a constant: both are initializers. The
// first rule that applies decides (docs/getting-started.md lists them too):
//
//   1. --freeze, --train-only, --parameter-names
//   2. elements of another type than FLOAT are not trained
//   3. what PyTorch's exporter states: PARAMETER, BUFFER, CONSTANT_TENSOR
//   4. values that look like a mask are not trained   (a guess, with a warning)
//   5. names of tables and masks are not trained      (a guess, with a warning)
//   6. numbers without axes are not trained, unless PyTorch wrote the file and
//      has kept their names                           (a guess, with a warning)
//   7. names of parameters are trained
//   8. everything else is trained                     (a guess, with a warning)
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_TRAININGCHOICE_H
#define PP_LIB_IMPORT_TRAININGCHOICE_H

#include "pp/Import/Onnx/TorchExport.h"
#include "pp/Import/OnnxImporter.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/GlobPattern.h"

namespace pp {

class TrainingChoice {
public:
  struct Decision {
    bool isTrained = false;
    std::string reason;
    bool isGuess = false;
  };

  TrainingChoice(const onnx::Model &model, const ImportOptions &options);

  /// Whether the program keeps a tensor of floating-point numbers as a
  /// parameter. A single number may be one of a formula; it is a parameter, in
  /// inference too, if training would train it.
  bool isParameter(const onnx::Tensor &tensor);
  /// Decides about a tensor, once.
  Decision decide(const onnx::Tensor &tensor);
  /// Takes back what was decided about a tensor, whose use says that it is no
  /// parameter.
  void withdraw(llvm::StringRef name) { decisions.erase(name); }

  /// Faults of the user's patterns: malformed ones, and those without a match.
  std::vector<std::string> findFaults() const;
  /// A warning for each kind of guess, with the tensors it was made about.
  std::vector<std::string> describeGuesses() const;

private:
  using Patterns = std::vector<std::pair<std::string, llvm::GlobPattern>>;

  Patterns parse(llvm::ArrayRef<std::string> texts, llvm::StringRef flag);
  void checkPaddingIndices();
  bool isOfSpectralNorm(llvm::StringRef name) const;
  Decision decideAnew(const onnx::Tensor &tensor) const;
  Decision decideInTraining(const onnx::Tensor &tensor) const;

  const onnx::Model &model;
  const ImportOptions &options;
  /// f64 if most numbers of the model's floating-point initializers are.
  bool isDouble = false;
  onnx::TorchSignature signature;
  Patterns freeze, trainOnly;
  std::vector<std::string> faults;
  llvm::MapVector<llvm::StringRef, Decision> decisions;
};

} // namespace pp

#endif // PP_LIB_IMPORT_TRAININGCHOICE_H
