//===- Options.h - Types of the pp passes' options --------------*- C++ -*-===//

#ifndef PP_DIALECT_PP_TRANSFORMS_OPTIONS_H
#define PP_DIALECT_PP_TRANSFORMS_OPTIONS_H

#include "plan/CheckpointMode.h"
#include "pp/Planner/PipelinePlan.h"
#include "pp/Support/NamedEnum.h"

#include <memory>
#include <string>

namespace pp::pipeline {

/// What a partition makes equal over the stages.
enum class PartitionObjective { Time, Memory };

/// A plan of pp-plan that a pass follows; null if there is none. As text, it is
/// the name of a file.
struct GivenPlan {
  std::string name; // for messages
  std::shared_ptr<const planner::PipelinePlan> plan;

  explicit operator bool() const { return plan != nullptr; }
  const planner::PipelinePlan *operator->() const { return plan.get(); }

  /// Reads a file; the error says what is wrong with it.
  static planner::Result<GivenPlan> read(llvm::StringRef path);
};

} // namespace pp::pipeline

namespace pp {

template <> struct EnumNames<pipeline::PartitionObjective> {
  static constexpr NamedValue<pipeline::PartitionObjective> values[] = {
      {pipeline::PartitionObjective::Time, "time", "of a micro-batch"},
      {pipeline::PartitionObjective::Memory, "memory", ""}};
};

template <> struct EnumNames<CheckpointMode> {
  static constexpr NamedValue<CheckpointMode> values[] = {
      {CheckpointMode::Always, nameOf(CheckpointMode::Always),
       "all micro-batches"},
      {CheckpointMode::ExceptLast, nameOf(CheckpointMode::ExceptLast),
       "all but the last one"},
      {CheckpointMode::Never, nameOf(CheckpointMode::Never), "none"}};
};

} // namespace pp

namespace llvm::cl {

template <>
class parser<pp::pipeline::GivenPlan>
    : public basic_parser<pp::pipeline::GivenPlan> {
public:
  using basic_parser::basic_parser;

  /// True on error.
  bool parse(Option &option, StringRef, StringRef path,
             pp::pipeline::GivenPlan &plan) {
    if (path.empty()) {
      plan = {};
      return false;
    }
    auto read = pp::pipeline::GivenPlan::read(path);
    if (!read)
      return option.error(read.error());
    plan = *read;
    return false;
  }
  static void print(raw_ostream &os, const pp::pipeline::GivenPlan &plan) {
    os << plan.name;
  }
  void printOptionDiff(const Option &option, const pp::pipeline::GivenPlan &,
                       const OptionValue<pp::pipeline::GivenPlan> &,
                       size_t width) const {
    printOptionNoValue(option, width);
  }
  StringRef getValueName() const override { return "file"; }
};

} // namespace llvm::cl

#endif // PP_DIALECT_PP_TRANSFORMS_OPTIONS_H
