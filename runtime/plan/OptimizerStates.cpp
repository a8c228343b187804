//===- OptimizerStates.cpp ------------------------------------------------===//
#include "plan/OptimizerStates.h"

#include <algorithm>

using namespace pp::runtime;

StateForm pp::runtime::formOf(std::string_view state) {
  if (state == factoredRowsName)
    return StateForm::Rows;
  if (state == factoredColumnsName)
    return StateForm::Columns;
  return state == unfactoredName ? StateForm::Vector : StateForm::Whole;
}

std::optional<Shape> pp::runtime::shapeOf(std::string_view state,
                                          const Shape &parameter) {
  StateForm form = formOf(state);
  bool hasMatrices = parameter.size() > 1;
  if (form == StateForm::Whole || (form == StateForm::Vector && !hasMatrices))
    return parameter;
  if (!hasMatrices || form == StateForm::Vector)
    return std::nullopt;
  Shape shape = parameter;
  shape[shape.size() - (form == StateForm::Rows ? 1 : 2)] = 1;
  return shape;
}

unsigned pp::runtime::countWhole(const std::vector<std::string> &states) {
  return std::count_if(states.begin(), states.end(), [](const auto &state) {
    return formOf(state) == StateForm::Whole;
  });
}

uint64_t pp::runtime::bytesOf(std::string_view state, DataType type,
                              const Shape &parameter) {
  std::optional<Shape> shape = shapeOf(state, parameter);
  uint64_t bytes = shape ? sizeOf(type) : 0;
  for (int64_t size : shape.value_or(Shape()))
    bytes *= size;
  return bytes;
}

uint64_t pp::runtime::stateBytes(const std::vector<std::string> &states,
                                 DataType type,
                                 const std::vector<Shape> &parameters,
                                 uint64_t parameterBytes) {
  uint64_t bytes = countWhole(states) * parameterBytes;
  for (const std::string &state : states)
    if (formOf(state) != StateForm::Whole)
      for (const Shape &parameter : parameters)
        bytes += alignUp(bytesOf(state, type, parameter));
  return bytes;
}

uint64_t pp::runtime::stateOffset(const PlanOptimizer &optimizer,
                                  const PlanStage &stage,
                                  const PlanTensor &parameter, unsigned state) {
  const std::vector<std::string> &states = optimizer.states;
  std::vector<std::string> before(states.begin(), states.begin() + state);
  uint64_t parameters = stage.areas.parameters.bytes;
  if (formOf(states[state]) == StateForm::Whole)
    return countWhole(before) * parameters + parameter.offset;
  uint64_t offset = countWhole(states) * parameters;
  for (const std::string &other : before)
    if (formOf(other) != StateForm::Whole)
      for (const PlanTensor &tensor : stage.parameters)
        offset += alignUp(bytesOf(other, optimizer.type, tensor.shape));
  for (const PlanTensor &tensor : stage.parameters) {
    if (tensor.name == parameter.name)
      break;
    offset += alignUp(bytesOf(states[state], optimizer.type, tensor.shape));
  }
  return offset;
}
