//===- Reader.cpp - Read and check an ONNX file ---------------------------===//
#include "pp/Import/Onnx/Reader.h"
#include "Convert.h"
#include "FunctionBodies.h"
#include "Functions.h"
#include "GraphChecks.h"
#include "Skeleton.h"
#include "TextChecks.h"

using namespace pp::onnx;
using llvm::StringRef;

/// What a file that is no model at all most often is.
static bool checkContents(llvm::ArrayRef<uint8_t> contents,
                          DiagnosticSink &sink) {
  if (contents.empty()) {
    sink.error("empty file");
    return false;
  }
  StringRef text(reinterpret_cast<const char *>(contents.data()),
                 contents.size());
  if (text.starts_with("version https://git-lfs")) {
    sink.error("this is a Git LFS pointer, not the model it points to").help =
        "run 'git lfs pull'";
    return false;
  }
  return true;
}

static void readConfigurations(const ppmlir_onnx::ModelProto &proto,
                               Model &model) {
  for (const auto &configuration : proto.configuration()) {
    DeviceConfiguration result;
    result.name = configuration.name();
    result.deviceCount = configuration.num_devices();
    result.devices.assign(configuration.device().begin(),
                          configuration.device().end());
    model.configurations.push_back(std::move(result));
  }
}

llvm::Expected<std::unique_ptr<Model>>
pp::onnx::readModel(StringRef path, const ReaderOptions &options) {
  DiagnosticSink sink(path);
  auto model = std::make_unique<Model>();
  model->path = path.str();

  llvm::Expected<std::unique_ptr<WeightFiles>> files = WeightFiles::open(path);
  if (!files) {
    sink.inputOutput(llvm::toString(files.takeError()));
    return sink.takeError();
  }
  model->files = std::move(*files);
  llvm::ArrayRef<uint8_t> contents = llvm::cantFail(model->files->map(0));
  if (!checkContents(contents, sink))
    return sink.takeError();
  llvm::Expected<std::unique_ptr<ppmlir_onnx::ModelProto>> skeleton =
      parseSkeleton(contents);
  if (!skeleton) {
    sink.error(llvm::toString(skeleton.takeError()));
    return sink.takeError();
  }
  const ppmlir_onnx::ModelProto &proto = **skeleton;

  checkText(proto, sink);
  checkIrVersion(proto, sink);
  model->opsets = readOpsets(proto.opset_import(), "the model", sink);
  if (!proto.has_graph())
    sink.error("the model has no graph");
  else if (proto.graph().name().empty())
    sink.error("the graph has no name");
  if (sink.hasErrors())
    return sink.takeError();

  model->irVersion = proto.ir_version();
  model->producerName = proto.producer_name();
  model->producerVersion = proto.producer_version();
  model->metadata = readMetadata(proto.metadata_props());
  readConfigurations(proto, *model);
  if (proto.training_info_size())
    sink.warning("the model's training_info is ignored").help =
        "name the loss and the optimizer on the command line";

  Converter converter(*model->files, options, sink);
  for (const auto &function : proto.functions())
    converter.announce(function);
  std::vector<Function> functions;
  functions.reserve(proto.functions_size());
  for (const auto &function : proto.functions())
    functions.push_back(converter.function(function));
  model->graph = converter.graph(proto.graph(), model->opsets);
  skeleton->reset();
  addFunctionBodies(functions, model->graph, converter, sink);
  if (sink.hasErrors())
    return sink.takeError();

  FunctionTable table = checkFunctions(functions, model->graph, options, sink);
  if (sink.hasErrors())
    return sink.takeError();
  inlineFunctions(table, model->graph, sink);
  if (sink.hasErrors())
    return sink.takeError();

  checkNames(model->graph, sink);
  if (!sink.hasErrors())
    sortNodes(model->graph, sink);
  if (sink.hasErrors())
    return sink.takeError();
  model->warnings = sink.take();
  return model;
}
