//===- NodeImporter.h - Shared by the handlers of operators -----*- C++ -*-===//
//
// One handler per ONNX operator, in files by subject. A handler reads its
// inputs from the importer, builds nn operations, and sets its outputs; on a
// fault it reports an error and fails.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_NODEIMPORTER_H
#define PP_LIB_IMPORT_NODEIMPORTER_H

#include "Constant.h"
#include "OperatorTable.h"
#include "TrainingChoice.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Import/Onnx/Model.h"
#include "pp/Import/Onnx/OperatorDefinition.h"
#include "pp/Import/Onnx/TorchExport.h"
#include "pp/Import/OnnxImporter.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <functional>

namespace pp {

/// What a name of the ONNX graph stands for.
struct Entry {
  /// Set for everything that the graph computes.
  mlir::Value value;
  /// Set for what is known at import; the value is made on demand.
  Constant constant;
  /// Set for sequences.
  std::vector<Entry> sequence;
  bool isSequence = false;
  /// An optional value that is not there.
  bool isAbsent = false;
  /// The type of the elements where no tensor of nn has it: see NarrowType.h.
  onnx::DataType narrow = onnx::DataType::Undefined;
  /// A node that failed produced it: its readers are not reported again.
  bool poisoned = false;
};

/// The most elements of a tensor: no program gets so much memory, and nothing
/// that is computed from two such sizes overflows.
inline constexpr int64_t maxElements = int64_t(1) << 40;

/// Whether the shape has more; none of its sizes is negative.
bool isTooLarge(llvm::ArrayRef<int64_t> shape);

class NodeImporter {
public:
  NodeImporter(const onnx::Model &model, const ImportOptions &options,
               mlir::OpBuilder &builder,
               std::vector<onnx::Diagnostic> &diagnostics)
      : model(model), options(options), builder(builder),
        diagnostics(diagnostics), training(model, options),
        isInTrainingMode(onnx::isInTrainingMode(model)) {}

  //===--------------------------------------------------------------------===//
  // The node at hand
  //===--------------------------------------------------------------------===//

  const onnx::Node &getNode() const { return *node; }
  bool isTraining() const { return options.training; }
  /// Of a batch norm: whether its module was in eval mode when others trained.
  bool isFrozenNorm() const {
    return isInTrainingMode && !onnx::isTrainingNorm(*node);
  }
  const ImportOptions &getOptions() const { return options; }
  int64_t opset() const { return node->version; }

  size_t numInputs() const { return node->inputs.size(); }
  bool hasInput(size_t index) const {
    return index < node->inputs.size() && !node->inputs[index].empty();
  }
  Entry &input(size_t index) { return entries[node->inputs[index]]; }
  /// The input as a tensor value, of the type that the operator's entry takes;
  /// null, with an error, if it is none.
  mlir::Value tensor(size_t index);
  /// The input as known at import; null if it is computed. Inputs that the
  /// operator's entry names are known where they are there.
  Constant known(size_t index) {
    return hasInput(index) ? input(index).constant : Constant();
  }
  /// A list of integers from the attribute `name`, or from input `index` where
  /// newer opsets have it; `fallback` if neither is there.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  integers(llvm::StringRef name, int index,
           llvm::ArrayRef<int64_t> fallback = {});
  /// The attribute, which counts as understood from here on; null if the node
  /// has none of that name. A node with an attribute that its handler has not
  /// asked for is an error, unless the value is the operator's default.
  const onnx::Attribute *findAttribute(llvm::StringRef name) {
    const onnx::Attribute *found = node->attribute(name);
    if (found)
      understood.insert(found);
    return found;
  }
  /// Says that the result does not depend on this attribute.
  void ignoreAttribute(llvm::StringRef name) { (void)findAttribute(name); }
  /// The type that a Cast names; Undefined if it is none.
  onnx::DataType castTarget();
  int64_t attribute(llvm::StringRef name, int64_t fallback);
  double attribute(llvm::StringRef name, double fallback);
  std::string attribute(llvm::StringRef name, const char *fallback);
  llvm::SmallVector<int64_t> attribute(llvm::StringRef name,
                                       llvm::ArrayRef<int64_t> fallback);

  void setOutput(size_t index, mlir::Value value);
  void setOutput(size_t index, Constant constant);
  void setOutput(size_t index, Entry entry);
  bool wantsOutput(size_t index) const {
    return index < node->outputs.size() && !node->outputs[index].empty();
  }
  /// An entry as a tensor value of its own type; null if it is none.
  mlir::Value valueOf(const Entry &entry);
  /// The computed output as what it is known as, if it is.
  Entry entryOf(mlir::Value value);

  /// Imports the nodes of a subgraph, whose inputs stand for `inputs`, and
  /// returns what its outputs stand for. Names of the graphs around it may be
  /// read.
  mlir::FailureOr<std::vector<Entry>> importGraph(const onnx::Graph &graph,
                                                  llvm::ArrayRef<Entry> inputs);

  llvm::LogicalResult error(const llvm::Twine &message,
                            llvm::StringRef help = "");
  /// Gives the last error this help, if it has none.
  void help(const llvm::Twine &text);
  /// What a user can do so that a value is known at compile time.
  std::string howToKnow() const;
  void warning(const llvm::Twine &message);
  /// A warning that is given for the first node only.
  void warnOnce(llvm::StringRef message);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location loc() const { return location; }

  /// Makes an operation with the location of the node.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    Op op = Op::create(builder, location, std::forward<Args>(args)...);
    attachStageHint(op);
    return op;
  }

  mlir::Value constant(Constant value);
  mlir::Value splat(mlir::RankedTensorType type, double value);
  /// The last bits of `value`.
  static mlir::IntegerAttr integerAttribute(mlir::Type element, int64_t value);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  /// numpy broadcasting to `shape`.
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Brings two tensors to their common shape; fails with an error.
  llvm::LogicalResult broadcastTogether(mlir::Value &lhs, mlir::Value &rhs);
  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  mlir::Value reduce(nn::Reduction reduction, mlir::Value value,
                     llvm::ArrayRef<int64_t> axes, bool keepAxes);
  /// Numbers in [0, 1), drawn anew in each step; each call makes a stream of
  /// its own. `seed` changes them beside the seed of the program.
  mlir::Value uniform(llvm::ArrayRef<int64_t> shape, int64_t seed);
  /// Mean over `axes`, which stay with size one if `keepAxes`.
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> axes,
                   bool keepAxes);
  mlir::Value slice(mlir::Value value, int64_t axis, int64_t start,
                    int64_t limit);
  /// `value` at these positions of an axis.
  mlir::Value take(mlir::Value value, int64_t axis,
                   llvm::ArrayRef<int64_t> positions);
  /// Joins tensors along `axis`, which each of them gets where it `isNew`;
  /// null, with an error, if they do not fit each other.
  mlir::Value join(llvm::ArrayRef<mlir::Value> values, int64_t axis,
                   bool isNew);
  /// The constant that `value` is computed as, if it is one; what computed it
  /// and nothing else is removed. Else `value`.
  mlir::Value folded(mlir::Value value);

  static mlir::RankedTensorType type(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  static llvm::ArrayRef<int64_t> shape(mlir::Value value) {
    return type(value).getShape();
  }
  /// The shape of an entry, whether known at import or computed.
  static llvm::ArrayRef<int64_t> shape(const Entry &entry) {
    return entry.constant ? entry.constant.getShape() : shape(entry.value);
  }
  static mlir::Type elementType(const Entry &entry) {
    return entry.constant ? entry.constant.getElementType()
                          : type(entry.value).getElementType();
  }
  /// The ONNX type of a tensor's elements.
  static onnx::DataType dataType(mlir::Type elementType);
  static onnx::DataType dataType(const Entry &entry) {
    return entry.narrow == onnx::DataType::Undefined
               ? dataType(elementType(entry))
               : entry.narrow;
  }
  /// `axis` counted from the front; fails with an error if outside.
  mlir::FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  /// The same for a list of axes, none of which may be there twice.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  normalizeAxes(llvm::ArrayRef<int64_t> axes, int64_t rank);

  /// The MLIR element type of an ONNX type; null if there is none.
  mlir::Type elementType(onnx::DataType dataType);
  /// The same, or of a narrow type what its elements are kept in.
  mlir::Type storedType(onnx::DataType dataType);

  //===--------------------------------------------------------------------===//
  // Used by the importer itself
  //===--------------------------------------------------------------------===//

  /// Reads a small tensor of the file.
  llvm::Expected<Constant> readTensor(const onnx::Tensor &tensor);
  /// The same, with the type of its elements.
  llvm::Expected<Entry> readEntry(const onnx::Tensor &tensor);
  /// What an initializer stands for: a constant, or a parameter that waits for
  /// its first reader.
  llvm::Error declareInitializer(const onnx::Tensor &tensor);
  llvm::LogicalResult importNode(const onnx::Node &node);
  llvm::StringMap<Entry> &getEntries() { return entries; }
  /// Makes the global behind a float initializer, once, and names its value.
  mlir::Value parameter(const onnx::Tensor &tensor);
  /// What is trained of what was read so far.
  TrainingChoice &getTrainingChoice() { return training; }
  /// Float initializers that wait for their first reader.
  llvm::StringMap<const onnx::Tensor *> parameters;
  /// The pipeline_stage annotations of the file, as stages from 0 on. The
  /// format gives no first number: the smallest that occurs is stage 0.
  void setStageHints(llvm::ArrayRef<int32_t> sortedStages) {
    stageHints.assign(sortedStages.begin(), sortedStages.end());
  }
  /// Inner values whose shapes are not those that the file states, and the
  /// first of them in words. Exporters leave shapes of another batch there.
  int64_t contradictions = 0;
  std::string firstContradiction;
  /// Running statistics are never trained; `isMutable` says whether they move.
  void untrain(llvm::StringRef symbol, bool isMutable);
  /// Keeps a parameter of short elements in those that it is computed in, as
  /// what is trained is: running statistics move in small steps.
  void widenParameter(llvm::StringRef symbol);

private:
  /// Checks the node against the definition of its operator: operands,
  /// their types, attributes. Reports all that is wrong.
  llvm::LogicalResult checkDefinition(const ImportedOperator &entry);
  llvm::LogicalResult checkOperands(const onnx::OperatorDefinition &definition,
                                    const ImportedOperator &imported);
  llvm::LogicalResult
  checkAttributes(const onnx::OperatorDefinition &definition);
  /// Checks what the operator's entry restricts, and reads the inputs that it
  /// needs to know.
  llvm::LogicalResult checkEntry(const ImportedOperator &entry,
                                 const onnx::OperatorDefinition &definition);
  llvm::LogicalResult checkKnown(llvm::StringRef name, KnownInput::Form form,
                                 size_t index);
  /// Replaces outputs that are computed from constants alone, by the operations
  /// after `last`, by what they are.
  void foldOutputs(mlir::Operation *last);
  /// A tensor without elements is known.
  void emptyOutputs();
  /// Erases the operations after `last` whose results nobody has.
  void eraseUnused(mlir::Operation *last);
  /// An initializer of a subgraph, which may be imported several times.
  llvm::Error declareSubgraphInitializer(const onnx::Tensor &tensor);
  /// Brings outputs to the short types of their inputs.
  void shortenOutputs();
  /// As a type that the node's operator takes, which may be wider.
  mlir::Value widened(mlir::Value value);
  /// Fails if the handler left an attribute aside that matters.
  llvm::LogicalResult checkUnderstood();
  /// Fails where the file states other types or shapes of the outputs.
  llvm::LogicalResult checkDeclared();
  /// The operations after `last`, null for the first, must be valid: handlers
  /// leave to them what types and shapes they take.
  llvm::LogicalResult checkOperations(mlir::Operation *last);
  /// No output may be too large.
  llvm::LogicalResult checkSizes();
  /// What the file states of a value; null if nothing.
  const onnx::ValueInfo *declared(llvm::StringRef name);
  void attachStageHint(mlir::Operation *op);

  const onnx::Model &model;
  const ImportOptions &options;
  mlir::OpBuilder &builder;
  std::vector<onnx::Diagnostic> &diagnostics;
  TrainingChoice training;
  const bool isInTrainingMode;
  llvm::StringMap<Entry> entries;
  llvm::StringMap<mlir::Value> parameterValues;
  /// Behind parameters, by name: a module looks for a symbol among all of them.
  llvm::StringMap<mlir::ml_program::GlobalOp> globals;
  const onnx::Node *node = nullptr;
  llvm::SmallPtrSet<const onnx::Attribute *, 8> understood;
  /// The first input of each type variable of the node's operator, and its
  /// type.
  llvm::SmallDenseMap<int, std::pair<size_t, onnx::DataType>> typeVariables;
  /// The types that the node's handler takes.
  uint64_t types = allTypes;
  llvm::StringMap<const onnx::ValueInfo *> declarations;
  mlir::Location location = builder.getUnknownLoc();
  mlir::Operation *lastParameter = nullptr;
  mlir::Value randomCounter;
  int64_t streams = 0;
  llvm::StringSet<> given;
  llvm::StringMap<const onnx::Tensor *> subgraphInitializers;
  /// Nodes of subgraphs so far: loops are unrolled.
  int64_t unrolled = 0;
  llvm::SmallVector<int32_t> stageHints;
};

} // namespace pp

#endif // PP_LIB_IMPORT_NODEIMPORTER_H
