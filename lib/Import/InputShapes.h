//===- InputShapes.h - The sizes of a model's inputs ------------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_INPUTSHAPES_H
#define PP_LIB_IMPORT_INPUTSHAPES_H

#include "pp/Import/Onnx/Model.h"
#include "pp/Import/OnnxImporter.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace pp {

/// What the model leaves open about the axes of its inputs and the user's
/// flags say: sizes of symbols (`dims`), of axes that have no name (`dims`, by
/// the number of the axis), of single inputs (`shapes`), and where the samples
/// are (`batch`, `batchAxes`). A list of `values` has as many as its input.
class InputShapes {
public:
  struct Fault {
    std::string message, help;
  };

  InputShapes(const onnx::Graph &graph, const ImportOptions &options);

  /// Sizes that are for no input, or contradict each other or the model.
  const std::vector<Fault> &getFlagFaults() const { return flagFaults; }

  /// The sizes of an input's axes; empty where one is not known, which
  /// `faults` then says.
  llvm::SmallVector<int64_t> resolve(const onnx::ValueInfo &input,
                                     std::vector<Fault> &faults) const;

  /// The axis of an input or output that has the samples, if any has: 0 unless
  /// the user says otherwise.
  int64_t batchAxis(llvm::StringRef name) const;

  /// Which of the inputs that are fed, with their shapes, have the samples on
  /// that axis: those whose size there is left open, else those that have the
  /// size there that most have.
  llvm::SmallVector<bool>
  findBatched(llvm::ArrayRef<const onnx::ValueInfo *> inputs,
              llvm::ArrayRef<llvm::SmallVector<int64_t>> shapes) const;

private:
  void checkDims(llvm::ArrayRef<onnx::ValueInfo> inputs);
  void checkBatchAxes(const onnx::Graph &graph);
  bool isSamples(const onnx::ValueInfo &input, size_t axis) const;
  /// Of inputs; null, with a fault, where there is none.
  const onnx::ValueInfo *find(llvm::ArrayRef<onnx::ValueInfo> inputs,
                              llvm::StringRef flag, llvm::StringRef name);
  void bind(llvm::ArrayRef<onnx::ValueInfo> inputs, llvm::StringRef name,
            llvm::ArrayRef<int64_t> sizes);
  void bindAxis(const onnx::ValueInfo &input, size_t axis, int64_t size);

  const ImportOptions &options;
  /// Of symbols, those that follow from shapes too.
  llvm::StringMap<int64_t> sizes;
  std::vector<Fault> flagFaults;
};

} // namespace pp

#endif // PP_LIB_IMPORT_INPUTSHAPES_H
