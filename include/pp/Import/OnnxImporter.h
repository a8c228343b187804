//===- OnnxImporter.h - From an ONNX file to the nn dialect -----*- C++ -*-===//

#ifndef PP_IMPORT_ONNXIMPORTER_H
#define PP_IMPORT_ONNXIMPORTER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "pp/Support/NamedEnum.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pp {

/// How batch normalisation behaves in a training program.
enum class BatchNormMode {
  /// Statistics of each micro-batch; running statistics are committed once per
  /// step (deferred batch normalisation).
  Micro,
  /// The same, but each micro-batch moves the running statistics, as in
  /// PyTorch.
  Each,
  /// The running statistics, which do not change.
  Frozen,
};

template <> struct EnumNames<BatchNormMode> {
  static constexpr NamedValue<BatchNormMode> values[] = {
      {BatchNormMode::Micro, "micro",
       "statistics of each micro-batch; running statistics move once per step"},
      {BatchNormMode::Each, "each",
       "statistics of each micro-batch, which moves the running ones, as in "
       "PyTorch"},
      {BatchNormMode::Frozen, "frozen", "the running statistics, unchanged"}};
};

struct ImportOptions {
  /// Build the graph that is differentiated: float initializers are trained,
  /// batch normalisation follows `batchNorm`, dropout is active.
  bool training = false;
  BatchNormMode batchNorm = BatchNormMode::Micro;
  /// Sizes of symbolic dimensions; those that have no name have the number of
  /// their axis instead, where that is not 0. A symbol on axis 0 of an input
  /// that is not named here gets `batch`.
  llvm::StringMap<int64_t> dims;
  /// The sizes of all axes of inputs, by name.
  llvm::StringMap<std::vector<int64_t>> shapes;
  /// Numbers of inputs, by name, which are constants then: one for all elements
  /// or one for each.
  llvm::StringMap<std::vector<std::string>> values;
  /// By name, the axis of an input or output that has the samples, where it is
  /// not 0, or `noBatchAxis`. The program has that axis first.
  llvm::StringMap<int64_t> batchAxes;
  static constexpr int64_t noBatchAxis = -1;
  /// A symbolic dimension that a program is compiled for several sizes of,
  /// smallest first. `dims` has the size that is imported.
  struct Buckets {
    std::string dim; // empty: there are none
    std::vector<int64_t> sizes;
  } buckets;
  int64_t batch = 1;
  /// Whether products of 8-bit integers become `nn.integer_product` where they
  /// can, for which the target has a kernel that is faster than those of f32.
  bool hasIntegerProducts = false;
  /// The same of `nn.block_product`.
  bool hasBlockProducts = false;
  /// Whether a symbol on axis 0 is an error, because nobody has said `batch`: a
  /// training with one sample is nothing that one gets by omission.
  bool isBatchMissing = false;
  /// Patterns (`*`, `?`, `[...]`) of the initializers that are not trained,
  /// and, unless empty, of the only ones that are.
  std::vector<std::string> freeze, trainOnly;
  /// The row of an initializer that a Gather reads and does not train.
  std::map<std::string, int64_t> paddingIndices;
  /// Unless empty: the names of what is trained, from a file of the user's.
  llvm::StringSet<> parameterNames;
  bool allowHardlinks = false;
};

namespace onnx {
struct Model;
}

/// A model file that was read and checked; weights stay in the file.
struct OnnxModel {
  OnnxModel(std::unique_ptr<onnx::Model> model, bool isForTraining);
  OnnxModel(OnnxModel &&);
  OnnxModel &operator=(OnnxModel &&);
  ~OnnxModel();

  std::unique_ptr<onnx::Model> model;
  /// Optimizations of the exporter that training must not see are undone.
  bool isForTraining;
};

/// Reads an ONNX file. The error is an onnx::ReadError with all faults of the
/// file, or, for training, with what an exporter folded and nobody can undo.
llvm::Expected<OnnxModel> readOnnx(llvm::StringRef path,
                                   const ImportOptions &options,
                                   bool isForTraining);

/// Translates a model that was read into a module with one function, `@main`,
/// whose operations have the ONNX node names as locations. Weights stay in the
/// file.
///
/// The error is an onnx::ReadError with everything that is wrong: all
/// unsupported nodes, else all nodes with bad attributes or shapes. Warnings go
/// to `warnings`, if given, those of the reader first.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(mlir::MLIRContext *context, const OnnxModel &model,
           const ImportOptions &options = {},
           llvm::raw_ostream *warnings = nullptr);

/// Reads and translates.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(mlir::MLIRContext *context, llvm::StringRef path,
           const ImportOptions &options = {},
           llvm::raw_ostream *warnings = nullptr);

} // namespace pp

#endif // PP_IMPORT_ONNXIMPORTER_H
