//===- Annotate.cpp - Write pipeline stages into an ONNX file -------------===//
#include "pp/Import/Onnx/Annotate.h"
#include "ppmlir_onnx.pb.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <limits>

using namespace ppmlir_onnx;

namespace pp::onnx {

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static bool hasExternalData(const GraphProto &graph) {
  for (const TensorProto &tensor : graph.initializer())
    if (tensor.external_data_size() > 0)
      return true;
  return false;
}

static bool isInFolderOf(llvm::StringRef path, llvm::StringRef other) {
  llvm::StringRef a = llvm::sys::path::parent_path(path),
                  b = llvm::sys::path::parent_path(other);
  bool same = false;
  return !llvm::sys::fs::equivalent(a.empty() ? "." : a, b.empty() ? "." : b,
                                    same) &&
         same;
}

static void dropStages(NodeProto &node) {
  auto &configurations = *node.mutable_device_configurations();
  for (int i = configurations.size() - 1; i >= 0; --i) {
    configurations[i].clear_pipeline_stage();
    if (configurations[i].configuration_id() == annotationName)
      configurations.DeleteSubrange(i, 1);
  }
}

static size_t annotate(ModelProto &model, const llvm::StringMap<int> &stages,
                       int devices) {
  size_t count = 0;
  for (NodeProto &node : *model.mutable_graph()->mutable_node()) {
    dropStages(node);
    std::string name = node.name();
    if (name.empty() && node.output_size() > 0)
      name = node.op_type() + ":" + node.output(0);
    auto found = stages.find(name);
    if (found == stages.end())
      continue;
    NodeDeviceConfigurationProto &configuration =
        *node.add_device_configurations();
    configuration.set_configuration_id(annotationName.str());
    configuration.set_pipeline_stage(found->second);
    ++count;
  }
  auto &configurations = *model.mutable_configuration();
  for (int i = configurations.size() - 1; i >= 0; --i)
    if (configurations[i].name() == annotationName)
      configurations.DeleteSubrange(i, 1);
  DeviceConfigurationProto &configuration = *model.add_configuration();
  configuration.set_name(annotationName.str());
  configuration.set_num_devices(devices);
  model.set_ir_version(std::max<int64_t>(model.ir_version(), 11));
  return count;
}

llvm::Expected<size_t> annotateStages(llvm::StringRef source,
                                      llvm::StringRef target,
                                      const llvm::StringMap<int> &stages,
                                      int devices) {
  auto buffer = llvm::MemoryBuffer::getFile(source, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return error("cannot read '" + source +
                 "': " + buffer.getError().message());
  llvm::StringRef bytes = (*buffer)->getBuffer();
  ModelProto model;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return error("'" + source + "' is not an ONNX model");
  if (hasExternalData(model.graph()) && !isInFolderOf(source, target))
    return error("'" + target + "' is not in the folder of '" + source +
                 "', where the model's external data are");
  size_t count = annotate(model, stages, devices);
  std::string text;
  if (!model.SerializeToString(&text))
    return error("'" + target + "': the model is too large to be written");
  if (llvm::Error written =
          llvm::writeToOutput(target, [&](llvm::raw_ostream &os) {
            os << text;
            return llvm::Error::success();
          }))
    return error("cannot write '" + target +
                 "': " + llvm::toString(std::move(written)));
  return count;
}

} // namespace pp::onnx
