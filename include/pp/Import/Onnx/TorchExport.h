//===- TorchExport.h - What PyTorch's exporter says of tensors ------------===//
//
// torch.onnx.export(dynamo=True) notes in a file's metadata what its inputs
// were to PyTorch, and which call each node comes from. With its default
// optimize=True it also merges initializers whose values happen to be equal and
// computes with others, as if nothing would ever train them.
//
//===----------------------------------------------------------------------===//
#ifndef PP_IMPORT_ONNX_TORCHEXPORT_H
#define PP_IMPORT_ONNX_TORCHEXPORT_H

#include "pp/Import/Onnx/Model.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace pp::onnx {

/// What a tensor of an exported program is (torch.export's InputSpec.kind).
enum class TorchKind { Parameter, Buffer, Constant };

/// The kinds of a model's initializers by name, as far as the file states them.
class TorchSignature {
public:
  explicit TorchSignature(const Graph &graph);

  /// Nothing if the file does not say.
  std::optional<TorchKind> kindOf(llvm::StringRef tensor) const;
  /// All that are parameters, in the order of their names.
  std::vector<std::string> parameters() const;
  /// The tensor behind a placeholder of the exported program, such as
  /// "p_fc_weight"; "" if there is none.
  llvm::StringRef tensorOf(llvm::StringRef placeholder) const;
  /// The buffers and parameters that the module writes when it runs.
  const std::vector<std::string> &mutatedTensors() const { return mutated; }
  bool isEmpty() const { return kinds.empty(); }

private:
  llvm::StringMap<TorchKind> kinds;
  llvm::StringMap<std::string> tensors; // by placeholder
  std::vector<std::string> mutated;
};

/// Makes of an optimized export what an export with optimize=False would have
/// been, where that can be done exactly: initializers that stand for several
/// tensors of equal value are split again, transposed weights of linear layers
/// get their names and shapes back. Returns an error for each node into which
/// parameters were folded in another way, and for each that stands for several:
/// training would give another model.
std::vector<Diagnostic> undoOptimization(Model &model);

/// Writes a call of detach() behind what leaves a region of torch.no_grad(), as
/// far as the stack traces of its nodes show one. Returns a warning for each
/// region with trained tensors that may be one or one of torch.autocast().
std::vector<Diagnostic> stopAtNoGrad(Model &model);

/// Whether a batch norm uses the statistics of its input.
bool isTrainingNorm(const Node &node);

/// Whether a file shows that PyTorch exported it in training mode: a batch norm
/// that does not train was meant so (`bn.eval()`).
bool isInTrainingMode(const Model &model);

/// Returns a warning for each thing that an export in eval mode has lost for
/// training, as far as the file shows it.
std::vector<Diagnostic> findEvalMode(const Model &model);

/// The row of an embedding that is not trained (`padding_idx`), if the call
/// behind a node names one. A file of the older exporter says nothing of it.
std::optional<int64_t> findPaddingIndex(const Node &node);

/// Whether the gradient of each row of an embedding is divided by how often the
/// mini-batch has it.
bool scalesByFrequency(const Node &node);

/// Whether the bounds of the clamp() behind a node are numbers, not tensors;
/// nothing where it is another call or the file does not say.
std::optional<bool> isClampByNumbers(const Node &node);

/// Whether the call behind a node is detach(), which no gradient passes.
bool isDetach(const Node &node);

/// The `label_smoothing` of the cross entropy behind a node, which the exporter
/// does not write into the model; 0 without one.
double findLabelSmoothing(const Node &node);

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_TORCHEXPORT_H
