//===- AddedLoss.h - One of several losses of a model -----------*- C++ -*-===//

#ifndef PP_DIALECT_NN_TRANSFORMS_ADDEDLOSS_H
#define PP_DIALECT_NN_TRANSFORMS_ADDEDLOSS_H

#include "pp/Dialect/NN/Transforms/Options.h"

#include <optional>
#include <string>

namespace pp::nn {

/// A loss of another output, which is added to that of --loss.
struct AddedLoss {
  double weight = 1;
  Loss loss = Loss::CrossEntropy;
  std::string output;
  /// The name of the input with the targets; those of another loss where that
  /// has the same.
  std::string target;
};

/// What an added loss looks like, for messages.
inline constexpr llvm::StringLiteral addedLossText =
    "[WEIGHT*]LOSS:OUTPUT[=TARGET], as 0.3*cross_entropy:auxiliary=target";

/// Reads `0.3*cross_entropy:auxiliary=target`: without a weight it is 1,
/// without a target "target.auxiliary". Nothing where the text is another, the
/// weight is no positive number, or the loss is `output`, which has no targets.
std::optional<AddedLoss> parseAddedLoss(llvm::StringRef text);

} // namespace pp::nn

#endif // PP_DIALECT_NN_TRANSFORMS_ADDEDLOSS_H
