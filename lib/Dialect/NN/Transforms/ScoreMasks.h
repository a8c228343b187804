//===- ScoreMasks.h - What is hidden of attention's scores ------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_SCOREMASKS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_SCOREMASKS_H

#include "ConstantElements.h"

#include <map>

namespace pp::nn {

/// An operation that masks scores of shape batch x head x row x column.
struct ScoreMask {
  enum class Hides { nothing, aboveDiagonal, somethingElse };
  enum class Form { added, whereTrue, whereFalse };

  mlir::Operation *op;
  Form form;
  mlir::Value scores;
  /// What is known of it.
  Hides hides;
  /// Whether the program may add it to the scores instead, with the same
  /// result.
  bool isOperand;

  /// What is added, or says where scores are replaced.
  mlir::Value getMask() const;
  /// What stands in the place of a score.
  mlir::Value getReplacement() const;
};

/// Finds masks in the module of a program.
class ScoreMasks {
public:
  explicit ScoreMasks(mlir::ModuleOp module)
      : symbols(module), elements(module) {}

  /// The mask that `op` is, given that its result is multiplied by `factor`;
  /// none if it is none.
  std::optional<ScoreMask> find(mlir::Operation *op, double factor);

  /// The sum of masks that are operands: of f32 and rank 4, with 1 for axes
  /// that all are the same along. Null without masks.
  static mlir::Value add(mlir::OpBuilder &builder, mlir::Location location,
                         llvm::ArrayRef<ScoreMask> masks);

private:
  ScoreMask::Hides classify(mlir::Operation *op, mlir::Value scores,
                            ScoreMask::Form form, double factor);
  ScoreMask::Hides read(mlir::Operation *op, mlir::Value scores,
                        ScoreMask::Form form, double factor);
  std::optional<double> readMask(mlir::Operation *op, mlir::Value scores,
                                 ScoreMask::Form form,
                                 std::pair<int64_t, int64_t> at);
  bool isOperand(const ScoreMask &mask, double factor);
  /// Whether a value depends on what is trained in a way that may have a
  /// derivative.
  bool isTrained(mlir::Value value);

  mlir::SymbolTable symbols;
  ConstantElements elements;
  using Key = std::tuple<ScoreMask::Form, double, std::vector<const void *>>;
  std::map<Key, ScoreMask::Hides> known;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_SCOREMASKS_H
