//===- OnnxImporter.cpp - From an ONNX file to the nn dialect -------------===//

#include "pp/Import/OnnxImporter.h"
#include "InputShapes.h"
#include "InputValue.h"
#include "NarrowType.h"
#include "WrittenDropout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/Verifier.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Import/Onnx/OperatorDefinition.h"
#include "pp/Import/Onnx/Reader.h"
#include "pp/Import/Onnx/TorchExport.h"
#include "pp/Import/Onnx/WeightNodes.h"
#include "pp/Interfaces/Step.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class Importer {
public:
  Importer(MLIRContext *context, const onnx::Model &model,
           const ImportOptions &options)
      : model(model), options(options), builder(context),
        nodes(model, options, builder, diagnostics) {}

  OwningOpRef<ModuleOp> run() {
    Location loc = NameLoc::get(builder.getStringAttr(model.path));
    OwningOpRef<ModuleOp> module =
        ModuleOp::create(loc, llvm::sys::path::stem(model.path));
    builder.setInsertionPointToEnd(module->getBody());
    reportUnsupported();
    if (hasErrors() || failed(declareInputs(loc)))
      return {};
    collectStageHints();
    declareInitializers();
    if (hasErrors())
      return {};
    for (const onnx::Node &node : model.graph.nodes)
      (void)nodes.importNode(node);
    if (hasErrors() || failed(finish()))
      return {};
    return module;
  }

  std::vector<onnx::Diagnostic> &getDiagnostics() { return diagnostics; }
  bool hasErrors() const {
    return llvm::any_of(diagnostics, [](const onnx::Diagnostic &diagnostic) {
      return diagnostic.severity == onnx::Severity::Error;
    });
  }

private:
  onnx::Diagnostic &report(const llvm::Twine &message,
                           const llvm::Twine &help = "") {
    onnx::Diagnostic diagnostic;
    diagnostic.file = model.path;
    diagnostic.message = message.str();
    diagnostic.help = help.str();
    diagnostics.push_back(std::move(diagnostic));
    return diagnostics.back();
  }

  /// All operators without a handler, once each, with a count.
  void reportUnsupported() {
    struct Use {
      const onnx::Node *first;
      int64_t count = 0;
    };
    llvm::MapVector<std::pair<StringRef, StringRef>, Use> unsupported;
    for (const onnx::Node &node : model.graph.nodes) {
      if (findImportedOperator(onnx::operatorKey(node)))
        continue;
      Use &use = unsupported[{node.domain, node.opType}];
      if (use.count++ == 0)
        use.first = &node;
    }
    for (auto &[key, use] : unsupported) {
      auto &diagnostic = report(
          "operator " + (key.first.empty() ? "ai.onnx" : key.first) + "." +
          key.second + " (opset " + llvm::Twine(use.first->version) +
          ") is not supported; " + llvm::Twine(use.count) +
          (use.count == 1 ? " node uses it" : " nodes use it"));
      diagnostic.category = onnx::Category::Unsupported;
      diagnostic.nodeName = use.first->name;
      diagnostic.nodeOp = use.first->opType;
      diagnostic.nodeIndex = use.first->index;
    }
  }

  LogicalResult declareInputs(Location loc) {
    SmallVector<Type> types;
    SmallVector<const onnx::ValueInfo *> fed;
    bool ok = true;
    InputShapes shapes(model.graph, options);
    SmallVector<SmallVector<int64_t>> fedShapes;
    for (const onnx::ValueInfo &input : model.graph.inputs) {
      Type element = nodes.storedType(input.type);
      if (input.kind != onnx::ValueKind::Tensor || !element) {
        report(input.kind != onnx::ValueKind::Tensor
                   ? "input '" + input.name + "' is not a tensor"
                   : "input '" + input.name + "' has elements of type " +
                         onnx::dataTypeName(input.type) +
                         ", which is not supported")
            .category = onnx::Category::Unsupported;
        ok = false;
        continue;
      }
      std::vector<InputShapes::Fault> faults;
      SmallVector<int64_t> shape = shapes.resolve(input, faults);
      for (const InputShapes::Fault &fault : faults)
        report(fault.message, fault.help);
      if (!faults.empty()) {
        ok = false;
        continue;
      }
      for (auto [axis, size] : llvm::enumerate(shape))
        if (size < 0) {
          report("axis " + llvm::Twine(axis) + " of input '" + input.name +
                 "' has size " + llvm::Twine(size) +
                 "; it must not be negative");
          ok = false;
        }
      if (ok && isTooLarge(shape)) {
        report("input '" + input.name + "' has more than " +
               llvm::Twine(maxElements) + " elements");
        ok = false;
      }
      auto type = RankedTensorType::get(shape, element);
      if (ok && llvm::is_contained(shape, 0)) {
        declareEmptyInput(input, type);
        continue;
      }
      if (auto given = options.values.find(input.name);
          given != options.values.end() && !isTooLarge(shape)) {
        ok &= declareGivenInput(input, type, given->second);
        continue;
      }
      fedShapes.push_back(shape);
      // The program has the samples first.
      if (int64_t axis = shapes.batchAxis(input.name); axis > 0)
        std::rotate(shape.begin(), shape.begin() + axis,
                    shape.begin() + axis + 1);
      types.push_back(RankedTensorType::get(shape, element));
      fed.push_back(&input);
    }
    for (const InputShapes::Fault &fault : shapes.getFlagFaults())
      report(fault.message, fault.help);
    ok &= shapes.getFlagFaults().empty();
    if (!ok)
      return failure();
    if (types.empty()) {
      report(model.graph.inputs.empty()
                 ? "the graph has no inputs"
                 : "the graph has no input with elements that is not given");
      return failure();
    }
    function = func::FuncOp::create(builder, loc, mainFunctionName,
                                    builder.getFunctionType(types, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToEnd(entry);
    SmallVector<bool> batched = shapes.findBatched(fed, fedShapes);
    for (auto [index, given] : llvm::enumerate(fed)) {
      const onnx::ValueInfo &input = *given;
      Location name = NameLoc::get(builder.getStringAttr(input.name));
      BlockArgument argument = entry->getArgument(index);
      argument.setLoc(name);
      Entry &known = nodes.getEntries()[input.name];
      known.value = argument;
      if (int64_t axis = shapes.batchAxis(input.name); axis > 0) {
        // Back to where the model has them.
        auto order =
            llvm::to_vector(llvm::seq<int64_t>(0, fedShapes[index].size()));
        std::rotate(order.begin(), order.begin() + 1, order.begin() + axis + 1);
        known.value = TransposeOp::create(builder, name, argument, order);
      }
      if (isNarrow(input.type))
        known.narrow = input.type;
      function.setArgAttr(index, step::feedAttrName,
                          builder.getStringAttr(input.name));
      function.setArgAttr(
          index, step::roleAttrName,
          step::RoleAttr::get(builder.getContext(), step::Role::Input));
      // What --batch is the size of.
      if (batched[index])
        function.setArgAttr(index, step::batchedAttrName,
                            builder.getUnitAttr());
    }
    return success();
  }

  /// Of a tensor without elements everything is known.
  void declareEmptyInput(const onnx::ValueInfo &input, RankedTensorType type) {
    Entry &known = nodes.getEntries()[input.name];
    known.constant =
        Constant(DenseElementsAttr::get(type, ArrayRef<Attribute>()));
    if (isNarrow(input.type))
      known.narrow = input.type;
    report("input '" + input.name +
           "' has no elements; the program does not read it")
        .severity = onnx::Severity::Warning;
  }

  /// Says what is wrong with the value that the user gives, if anything is.
  bool declareGivenInput(const onnx::ValueInfo &input, RankedTensorType type,
                         ArrayRef<std::string> numbers) {
    llvm::Expected<Constant> value = readInputValue(type, input.type, numbers);
    if (!value) {
      report("--value=" + input.name + ": the input " +
             llvm::toString(value.takeError()));
      return false;
    }
    Entry &known = nodes.getEntries()[input.name];
    known.constant = *value;
    if (isNarrow(input.type))
      known.narrow = input.type;
    return true;
  }

  /// Float initializers are parameters, integers are constants.
  void declareInitializers() {
    for (const std::string &fault : nodes.getTrainingChoice().findFaults())
      report(fault);
    for (const onnx::Tensor &tensor : model.graph.initializers)
      if (auto error = nodes.declareInitializer(tensor)) {
        // A tensor that nobody can read matters only to its readers.
        nodes.getEntries()[tensor.name].poisoned = true;
        report("initializer '" + tensor.name +
               "': " + llvm::toString(std::move(error)))
            .category = onnx::Category::Unsupported;
      }
  }

  void collectStageHints() {
    SmallVector<int32_t> stages;
    for (const onnx::Node &node : model.graph.nodes)
      if (node.pipelineStage)
        stages.push_back(*node.pipelineStage);
    llvm::sort(stages);
    stages.erase(llvm::unique(stages), stages.end());
    nodes.setStageHints(stages);
  }

  /// Whether a kernel of the model will have written the value.
  static bool isComputed(Value value) {
    Operation *op = value.getDefiningOp();
    if (op && isa<ReshapeOp>(op))
      return isComputed(op->getOperand(0));
    return op && !isa<ConstantOp, ParameterOp>(op);
  }

  /// The value of an output, with a kernel behind it of its own: each output is
  /// written where the program's user finds it.
  Value computed(Value value, StringRef name, ArrayRef<Value> others) {
    if (isComputed(value) && !llvm::is_contained(others, value))
      return value;
    return CopyOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                          value);
  }

  /// An output as the program gives it, where the user says which axis has the
  /// samples.
  FailureOr<Value> samplesFirst(Value value, StringRef name) {
    int64_t axis = options.batchAxes.lookup(name);
    if (axis <= 0)
      return value;
    int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
    if (axis >= rank) {
      report("--batch-axis=" + name + ": it has " + llvm::Twine(rank) + " axes",
             "axes are counted from 0");
      return failure();
    }
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    return Value(TransposeOp::create(
        builder, NameLoc::get(builder.getStringAttr(name)), value, order));
  }

  LogicalResult finish() {
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attributes;
    llvm::StringSet<> seen;
    for (const onnx::ValueInfo &output : model.graph.outputs) {
      // Who returns a value twice gets it once, by its name.
      if (!seen.insert(output.name).second)
        continue;
      Entry &entry = nodes.getEntries()[output.name];
      if (entry.constant && !entry.value)
        entry.value = ConstantOp::create(
            builder, NameLoc::get(builder.getStringAttr(output.name)),
            entry.constant.getElements());
      if (!entry.value && nodes.parameters.count(output.name))
        entry.value = nodes.parameter(*nodes.parameters[output.name]);
      if (!entry.value) {
        report("output '" + output.name + "' is not a tensor");
        return failure();
      }
      // Of samples without elements there is nothing to write.
      auto type = cast<RankedTensorType>(entry.value.getType());
      if (type.getNumElements() == 0 && type.getDimSize(0) != 0) {
        report("output '" + output.name +
               "' has no elements; the program does not give it")
            .severity = onnx::Severity::Warning;
        continue;
      }
      FailureOr<Value> value = samplesFirst(entry.value, output.name);
      if (failed(value))
        return failure();
      results.push_back(computed(*value, output.name, results));
      attributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
          step::fetchAttrName, builder.getStringAttr(output.name))));
    }
    if (results.empty()) {
      report("the graph has no output with elements");
      return failure();
    }
    for (const std::string &guess : nodes.getTrainingChoice().describeGuesses())
      report(guess).severity = onnx::Severity::Warning;
    if (nodes.contradictions > 0)
      report(nodes.firstContradiction +
             (nodes.contradictions == 1
                  ? std::string("; the computed one is taken")
                  : ", and so do " + std::to_string(nodes.contradictions - 1) +
                        " more values; the computed ones are taken"))
          .severity = onnx::Severity::Warning;
    func::ReturnOp::create(builder, function.getLoc(), results);
    function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                             ValueRange(results).getTypes()));
    function.setAllResultAttrs(attributes);
    if (!options.training)
      removeWrittenDropout(function);
    return success();
  }

  const onnx::Model &model;
  const ImportOptions &options;
  OpBuilder builder;
  std::vector<onnx::Diagnostic> diagnostics;
  NodeImporter nodes;
  func::FuncOp function;
};

} // namespace

OnnxModel::OnnxModel(std::unique_ptr<onnx::Model> model, bool isForTraining)
    : model(std::move(model)), isForTraining(isForTraining) {}
OnnxModel::OnnxModel(OnnxModel &&) = default;
OnnxModel &OnnxModel::operator=(OnnxModel &&) = default;
OnnxModel::~OnnxModel() = default;

llvm::Expected<OnnxModel>
pp::readOnnx(StringRef path, const ImportOptions &options, bool isForTraining) {
  onnx::ReaderOptions readerOptions;
  readerOptions.allowHardlinks = options.allowHardlinks;
  auto model = onnx::readModel(path, readerOptions);
  if (!model)
    return model.takeError();
  int64_t taken = onnx::takeWeightsFromNodes(**model);
  if (isForTraining) {
    if (taken > 0) {
      onnx::Diagnostic &warning = (*model)->warnings.emplace_back();
      warning.severity = onnx::Severity::Warning;
      warning.file = (*model)->path;
      warning.message =
          "its weights are Constant nodes: " + std::to_string(taken) +
          " of them count as initializers, with the names of "
          "their outputs";
    }
    std::vector<onnx::Diagnostic> errors = onnx::undoOptimization(**model);
    if (!errors.empty())
      return llvm::make_error<onnx::ReadError>(std::move(errors));
    llvm::append_range((*model)->warnings, onnx::findEvalMode(**model));
    llvm::append_range((*model)->warnings, onnx::stopAtNoGrad(**model));
  }
  return OnnxModel(std::move(*model), isForTraining);
}

llvm::Expected<OwningOpRef<ModuleOp>>
pp::importOnnx(MLIRContext *context, const OnnxModel &model,
               const ImportOptions &options, llvm::raw_ostream *warnings) {
  context->loadDialect<NNDialect, step::StepDialect, func::FuncDialect,
                       ml_program::MLProgramDialect>();
  Importer importer(context, *model.model, options);
  OwningOpRef<ModuleOp> module = importer.run();
  if (!module)
    return llvm::make_error<onnx::ReadError>(
        std::move(importer.getDiagnostics()));
  if (warnings) {
    for (const onnx::Diagnostic &warning : model.model->warnings)
      warning.print(*warnings);
    for (const onnx::Diagnostic &warning : importer.getDiagnostics())
      warning.print(*warnings);
  }
  return std::move(module);
}

llvm::Expected<OwningOpRef<ModuleOp>>
pp::importOnnx(MLIRContext *context, StringRef path,
               const ImportOptions &options, llvm::raw_ostream *warnings) {
  auto model = readOnnx(path, options, options.training);
  if (!model)
    return model.takeError();
  return importOnnx(context, *model, options, warnings);
}
