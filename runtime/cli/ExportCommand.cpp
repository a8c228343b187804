//===- ExportCommand.cpp - `export` ---------------------------------------===//
#include "cli/CommandLine.h"
#include "cli/ExportReport.h"
#include "exec/Snapshot.h"
#include "support/Error.h"
#include "support/Print.h"

#include <fmt/ranges.h>

#include <set>

using namespace pp::runtime;

/// The training program's plan, whose names are all that there are; of a model
/// without a loss that for inference.
static Plan readPlan(const pp_binary &binary) {
  const pp_pipeline *program =
      binary.training ? binary.training : binary.inference;
  return Plan::parse({program->plan, program->plan_size});
}

/// The name of a tensor, or of its average, in the file.
static std::string keyOf(const SafetensorsFile &file, const std::string &name,
                         bool averages) {
  bool hasAverage = averages && file.find(averageOf(name));
  return hasAverage ? averageOf(name) : name;
}

/// The tensors of the plan that the file has. Throws where it lacks one that is
/// trained, or has one of another type or shape.
static std::set<std::string>
findTensors(const Plan &plan, const SafetensorsFile &file, bool averages) {
  std::set<std::string> names, trained = ModelExport::trainedTensors(plan);
  std::vector<std::string> faults;
  for (const PlanStage &stage : plan.stages)
    for (const auto *list : {&stage.parameters, &stage.buffers})
      for (const PlanTensor &tensor : *list) {
        const std::string key = keyOf(file, tensor.name, averages);
        const TensorView *source = file.find(key);
        if (!source && trained.count(tensor.name))
          faults.push_back(fmt::format("tensor '{}' is missing", tensor.name));
        if (!source || !names.insert(tensor.name).second)
          continue;
        if (source->type != tensor.type || source->shape != tensor.shape)
          faults.push_back(fmt::format(
              "tensor '{}' is {} {}, but the program has {} {}", tensor.name,
              nameOf(source->type), toString(source->shape),
              nameOf(tensor.type), toString(tensor.shape)));
        else
          file.verify(key);
      }
  if (!faults.empty())
    failInput("'{}': {}", file.getPath(), fmt::join(faults, "; "));
  return names;
}

/// What is worth saying of a file that was written.
void pp::runtime::reportExport(const ModelExport &model,
                               const std::string &output, size_t tensors) {
  printMessage("note: {} tensors in '{}', which is '{}' otherwise\n", tensors,
               output, model.getModel());
  if (unsigned rounded = model.countRounded())
    printMessage("note: {} of them are rounded to 16 bits, as the model has "
                 "them\n",
                 rounded);
  if (unsigned random = model.countRandom())
    printMessage("note: {} nodes draw random numbers, in inference too; where "
                 "they are a dropout that the exporter has written out, export "
                 "the module again after model.eval(), with these weights\n",
                 random);
}

int pp::runtime::runExport(const pp_binary &binary,
                           const ExportOptions &options) {
  Plan plan = readPlan(binary);
  SafetensorsFile file(options.load);
  if (options.averages)
    requireAverages(file);
  std::set<std::string> names = findTensors(plan, file, options.averages);
  ModelExport model(plan, names,
                    {options.output, options.model, options.weights},
                    !options.noVerifyWeights);
  model.write([&](const std::string &name) {
    const TensorView &tensor = *file.find(keyOf(file, name, options.averages));
    return std::string_view(tensor.data, tensor.bytes());
  });
  reportExport(model, options.output, names.size());
  unsigned others = 0;
  for (const auto &[name, tensor] : file.getTensors())
    others += !names.count(name) && name.find('#') == std::string::npos;
  if (others)
    printMessage("note: {} tensors of '{}' are not in the model\n", others,
                 options.load);
  return 0;
}
