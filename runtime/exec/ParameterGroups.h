//===- ParameterGroups.h - Parameters with values of their own --*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_PARAMETERGROUPS_H
#define PP_RUNTIME_EXEC_PARAMETERGROUPS_H

#include "exec/OptimizerScalars.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace pp::runtime {

/// A group as it is written, PATTERN[,PATTERN...]:WHAT[,WHAT...], where WHAT is
/// `frozen`, `lr_factor=NUMBER` or NAME=NUMBER for a value of the optimizer. In
/// patterns, `*` and `?` stand for other characters.
struct ParameterGroup {
  std::string text;
  std::vector<std::string> patterns;
  bool isFrozen = false;
  double learningRateFactor = 1;
  std::map<std::string, double> values;

  /// Throws Error(Usage) with the text.
  static ParameterGroup parse(const std::string &text);
};

/// Which parameters are in which group: the first that has a pattern for it.
class ParameterGroups {
public:
  ParameterGroups() = default;
  /// Throws Error(Usage) for a value that the optimizer does not have, and for
  /// a pattern that fits no parameter of the plan; all of them are named.
  ParameterGroups(const std::vector<std::string> &texts, const Plan &plan);

  bool empty() const { return groups.empty(); }
  const std::vector<ParameterGroup> &getGroups() const { return groups; }
  /// The number of the group; none: the optimizer's own values.
  std::optional<size_t> groupOf(const std::string &parameter) const;
  std::set<std::string> frozen() const;
  /// How many parameters are in a group.
  size_t countOf(size_t group) const;

  /// Gives a step of `plan` the values of its updates, those of the groups from
  /// the optimizer's own; `number` is that of the step, from 1.
  void setIn(Step &step, const Plan &plan, uint64_t number,
             const OptimizerScalars &scalars) const;

private:
  std::vector<ParameterGroup> groups;
  std::map<std::string, size_t> numbers; // by parameter
};

/// Whether a name fits a pattern with `*` and `?`.
bool fitsPattern(std::string_view name, std::string_view pattern);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_PARAMETERGROUPS_H
