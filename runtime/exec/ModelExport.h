//===- ModelExport.h - Trained weights back into the ONNX file --*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_MODELEXPORT_H
#define PP_RUNTIME_EXEC_MODELEXPORT_H

#include "formats/OnnxFile.h"
#include "program/Program.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// Where the model is, and where the new one goes.
struct ModelExportPaths {
  std::string output;
  /// The model's file; empty: where it was when it was compiled, or in the
  /// folder `weights`, if that is not empty.
  std::string model, weights;
};

/// Writes the ONNX file that a program was compiled from once more, for
/// inference, with other values in the initializers of its parameters and
/// statistics: in the type and form that the file has for them, transposed
/// where the file has the transpose. Values in other files go to new ones
/// beside the output: `FILE.data`, or `FILE.<its name>` where there are
/// several.
class ModelExport {
public:
  /// Finds the places of the tensors `names` of the plan. Throws
  /// Error(InvalidInput) where the file is not the one that was compiled: with
  /// `verify`, the tensors' bytes have the hashes of the plan. All such tensors
  /// are named. Throws Error(Usage) where the output would overwrite the model.
  ModelExport(const Plan &plan, const std::set<std::string> &names,
              ModelExportPaths paths, bool verify = true);
  ModelExport(const ModelExport &) = delete;
  ModelExport &operator=(const ModelExport &) = delete;

  /// Parameters, and buffers that training changes.
  static std::set<std::string> trainedTensors(const Plan &plan);

  /// The values of a tensor as the program has them, until the next call.
  using Values = std::function<std::string_view(const std::string &name)>;
  /// The tensors that write() asks for, in the order in which it does.
  std::vector<std::string> order() const;
  /// Each file is whole or not there; the model comes last.
  void write(const Values &values) const;

  const std::string &getModel() const { return model; }
  /// Tensors whose values the file has in 16 bits, and the program in more.
  unsigned countRounded() const;
  /// Nodes that draw random numbers, which are left as they are.
  unsigned countRandom() const { return file.getRandomNodes(); }

private:
  struct Tensor {
    const PlanTensor *plan;
    size_t initializer;
  };
  /// A file beside the model.
  struct External {
    std::string source, target;  // paths
    std::vector<size_t> tensors; // by the places of their values
    uint64_t bytes = 0;          // of the target
  };

  bool isModel(const std::string &path) const;
  std::string findModel() const;
  std::string externalPath(const std::string &location) const;
  /// The place of a tensor by its name, or by that of its values.
  std::optional<size_t> findInitializer(const PlanTensor &tensor) const;
  bool isPlaceOf(const PlanTensor &tensor,
                 const OnnxInitializer &initializer) const;
  /// What is wrong; empty: nothing.
  std::string checkTensor(const PlanTensor &tensor,
                          const OnnxInitializer &initializer,
                          bool verify) const;
  void nameExternals();
  /// Gives tensors that the exporter merged, because their first values were
  /// equal, initializers of their own.
  void separateCopies();
  void placeExternals();
  void checkOverlaps() const;
  void checkOutputs() const;
  std::string encode(const Tensor &tensor, std::string_view values) const;

  const Plan &plan;
  ModelExportPaths paths;
  std::string model;
  OnnxFile file;
  size_t countOfFile = 0; // of its initializers, without those added
  std::vector<Tensor> tensors;
  std::map<std::string, External> externals; // by location
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_MODELEXPORT_H
