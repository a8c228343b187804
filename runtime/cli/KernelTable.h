//===- KernelTable.h - Where a step's time goes ---------------------------===//
#ifndef PP_RUNTIME_CLI_KERNELTABLE_H
#define PP_RUNTIME_CLI_KERNELTABLE_H

#include "exec/Executor.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace pp::runtime {

/// What the kernels of this process took in `steps` steps. Kernels that do the
/// same on tensors of the same shape are one row.
class KernelTable {
public:
  KernelTable(const Plan &plan, const Executor &executor, uint64_t steps);

  /// The first `rows` rows, those that took longest first, as text. On the
  /// processor, products and convolutions are compared with a product whose
  /// factors lie in the cache, which is measured now.
  std::string toText(size_t rows, bool isCpu) const;
  nlohmann::ordered_json toJson(size_t rows) const;

private:
  struct Row {
    PlanMark mark;
    unsigned nodes = 0;           // kernels of the plan
    double runs = 0, seconds = 0; // per step
  };
  std::vector<Row> rows;
  double total = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_KERNELTABLE_H
