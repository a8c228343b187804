//===- KernelTable.cpp - The kernel table of a stage ----------------------===//

#include "KernelTable.h"
#include "LibraryScratchpad.h"
#include "plan/ParameterScalars.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

IntegerAttr KernelTable::add(const llvm::Twine &descriptor,
                             int64_t scratchpad) {
  StringAttr key = builder.getStringAttr(descriptor);
  auto entry = kernels.insert({key, scratchpad}).first;
  return builder.getI64IntegerAttr(entry - kernels.begin());
}

ArrayAttr KernelTable::toAttribute() {
  SmallVector<Attribute> entries;
  for (auto &[descriptor, scratchpad] : kernels)
    entries.push_back(
        KernelAttr::get(builder.getContext(), descriptor, scratchpad));
  return builder.getArrayAttr(entries);
}

/// The kernel that decides whether a step is skipped, with the numbers of the
/// optimizer's scalars that it reads and sets.
static std::string describeLossScale(step::OptimizerAttr optimizer,
                                     ScheduleOp schedule, bool isDouble) {
  std::string text =
      "loss_scale ranks=" +
      std::to_string(schedule.getRanks().size() * schedule.getReplicas());
  for (auto [index, scalar] :
       llvm::enumerate(optimizer.getScalars().getAsRange<step::ScalarAttr>())) {
    std::string number = std::to_string(index);
    if (scalar.getKind() == step::ScalarKind::LossScale)
      text += " scale=" + number;
    else if (scalar.getKind() == step::ScalarKind::IsSkipped)
      text += " skipped=" + number;
    else if (scalar.getName() == "growth_interval")
      text += " interval=" + number;
  }
  if (isDouble)
    text += " type=f64";
  return text;
}

StepKernels pp::pipeline::addStepKernels(KernelTable &table,
                                         const StepWork &work,
                                         step::OptimizerAttr optimizer,
                                         ScheduleOp schedule) {
  StepKernels kernels;
  auto launch =
      schedule->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(
          optimizerLaunchAttrName);
  if (launch && work.parameters) {
    if (optimizer.findScalar(runtime::trustRatioName))
      kernels.scratchpad =
          llvm::divideCeil(work.parameters, normElements) * normBytes;
    kernels.optimizer =
        table.add(launch.getValue() + " count=" + llvm::Twine(work.parameters),
                  kernels.scratchpad);
  }
  if (!work.hasLossScale)
    return kernels;
  auto checkFinite = [&](int64_t count) {
    std::string text = "check_finite count=" + std::to_string(count);
    if (work.isDouble)
      text += " type=f64";
    return table.add(divideKernel(text, schedule.getThreads()));
  };
  if (work.computesLoss)
    kernels.finiteLoss = checkFinite(schedule.getMicrobatches());
  if (work.parameters)
    kernels.finite = checkFinite(work.parameters);
  kernels.lossScale =
      table.add(describeLossScale(optimizer, schedule, work.isDouble));
  return kernels;
}
