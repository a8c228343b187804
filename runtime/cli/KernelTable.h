//===- KernelTable.h - Where a step's time goes ---------------------------===//
#ifndef PP_RUNTIME_CLI_KERNELTABLE_H
#define PP_RUNTIME_CLI_KERNELTABLE_H

#include "exec/Executor.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pp::runtime {

/// What the kernels of this process took in `steps` steps. Kernels that do the
/// same on tensors of the same shape are one row.
class KernelTable {
public:
  /// On the processor, products and convolutions are compared with a product
  /// whose factors lie in the cache, which is measured now.
  KernelTable(const Plan &plan, const Executor &executor, uint64_t steps,
              bool isCpu);

  /// The first `rows` rows, those that took longest first, as text.
  std::string toText(size_t rows) const;
  nlohmann::ordered_json toJson(size_t rows) const;

private:
  struct Row {
    PlanMark mark;
    unsigned nodes = 0;           // kernels of the plan
    double runs = 0, seconds = 0; // per step
  };
  /// Of such a product in all threads of a rank; nothing for other operations.
  std::optional<double> shareOfPeak(const Row &row) const;

  std::vector<Row> rows;
  double total = 0;
  double peaks[2] = {}; // operations per second in f32 and bf16; 0: unknown
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_KERNELTABLE_H
