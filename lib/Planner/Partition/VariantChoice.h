//===- VariantChoice.h - The fastest variants that fit into memory --------===//
#ifndef PP_LIB_PLANNER_PARTITION_VARIANTCHOICE_H
#define PP_LIB_PLANNER_PARTITION_VARIANTCHOICE_H

#include "CostModel.h"

namespace pp::planner::partition {

/// Chooses variants for the kernels of one stage.
class VariantChooser {
public:
  explicit VariantChooser(const CostModel &model);

  struct Fit {
    double time = 0;
    std::vector<int> variants; // As `kernels`.
  };

  /// The least time in which `kernels` fit into the memory of a device of the
  /// mode, or nothing. Clears `isExact` if more combinations than it keeps were
  /// undominated; the answer then fits but may not be the fastest.
  std::optional<Fit> fastest(const std::vector<size_t> &kernels, size_t mode,
                             int inFlight, bool &isExact) const;

private:
  const CostModel &model;
  /// Per mode and kernel; filled only if the model has choices.
  std::vector<std::vector<std::vector<Choice>>> choices;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_VARIANTCHOICE_H
