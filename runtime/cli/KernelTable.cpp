//===- KernelTable.cpp ----------------------------------------------------===//
#include "cli/KernelTable.h"
#include "cpu/LibraryKernel.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

using namespace pp::runtime;

/// Operations per second of one core on a product in the cache, which is near
/// the peak; 0 where the library has none.
static double measureProduct(bool isShort) {
  constexpr size_t size = 256;
  std::string text = "matmul a=256x256 b=256x256 c=256x256", error;
  setKernelThreads(1);
  auto kernel = LibraryKernel::create(
      isShort ? text + " types=bf16xbf16xf32" : text, error);
  if (!kernel)
    return 0;
  std::vector<float> a(size * size), b(size * size), c(size * size);
  std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
  void *aligned = scratchpad.data();
  size_t space = scratchpad.size();
  std::align(64, kernel->scratchpadBytes(), aligned, space);
  void *tensors[] = {a.data(), b.data(), c.data()};
  double best = 0;
  using Clock = std::chrono::steady_clock;
  for (auto start = Clock::now();
       Clock::now() - start < std::chrono::milliseconds(50);) {
    auto begin = Clock::now();
    if (!kernel->execute(tensors, aligned))
      return 0;
    std::chrono::duration<double> seconds = Clock::now() - begin;
    best = std::max(best, 2 * double(size * size * size) / seconds.count());
  }
  return best;
}

KernelTable::KernelTable(const Plan &plan, const Executor &executor,
                         uint64_t steps, bool isCpu) {
  for (bool isShort : {false, true})
    if (isCpu)
      peaks[isShort] = plan.threads * measureProduct(isShort);
  std::map<std::string, size_t> known;
  std::vector<size_t> rowOf;
  for (const PlanMark &mark : plan.marks) {
    auto [it, isNew] = known.try_emplace(mark.key, rows.size());
    if (isNew)
      rows.push_back({mark});
    ++rows[it->second].nodes;
    rowOf.push_back(it->second);
  }
  for (const KernelRun &run : executor.kernelRuns()) {
    Row &row = rows[rowOf.at(run.kernel)];
    row.runs += 1 / static_cast<double>(steps);
    row.seconds += run.seconds / static_cast<double>(steps);
    total += run.seconds / static_cast<double>(steps);
  }
  std::ranges::sort(rows, [](const Row &a, const Row &b) {
    return std::tie(b.seconds, a.mark.key) < std::tie(a.seconds, b.mark.key);
  });
}

std::optional<double> KernelTable::shareOfPeak(const Row &row) const {
  double peak = peaks[row.mark.key.find("types=bf16") != std::string::npos];
  // Of the others, memory is the limit.
  bool isProduct =
      row.mark.key.starts_with("matmul") || row.mark.key.starts_with("conv_");
  if (!isProduct || peak == 0)
    return std::nullopt;
  return static_cast<double>(row.mark.flops) * row.runs / row.seconds / peak;
}

std::string KernelTable::toText(size_t count) const {
  std::string text = fmt::format(
      "kernels: {:.3f} ms per step\n"
      "{:>10} {:>6} {:>6} {:>8} {:>8} {:>8}  operations, node\n",
      1e3 * total, "ms", "share", "runs", "GFLOP/s", "of peak", "GB/s");
  for (const Row &row : rows) {
    if (count-- == 0 || row.runs == 0)
      break;
    double each = row.seconds / row.runs;
    double rate = static_cast<double>(row.mark.flops) / each;
    auto ofPeak = shareOfPeak(row);
    std::string share = ofPeak ? fmt::format("{:.0f} %", 100 * *ofPeak) : "";
    text += fmt::format(
        "{:>10.3f} {:>4.1f} % {:>6.6g} {:>8.1f} {:>8} {:>8.1f}  {}, {}{}\n",
        1e3 * row.seconds, 100 * row.seconds / total, row.runs, 1e-9 * rate,
        share, 1e-9 * static_cast<double>(row.mark.bytes) / each,
        row.mark.operations, row.mark.node,
        row.nodes > 1 ? fmt::format(" and {} more", row.nodes - 1) : "");
  }
  if (peaks[0] > 0)
    text += fmt::format("peak: a product of 256 x 256 x 256 in the cache, "
                        "{:.0f} GFLOP/s in f32, {:.0f} in bf16\n",
                        1e-9 * peaks[0], 1e-9 * peaks[1]);
  return text;
}

nlohmann::ordered_json KernelTable::toJson(size_t count) const {
  auto json = nlohmann::ordered_json::array();
  for (const Row &row : rows) {
    if (count-- == 0 || row.runs == 0)
      break;
    json.push_back({{"key", row.mark.key},
                    {"operations", row.mark.operations},
                    {"node", row.mark.node},
                    {"kernels", row.nodes},
                    {"runs_per_step", row.runs},
                    {"seconds_per_step", row.seconds},
                    {"flops", row.mark.flops},
                    {"bytes", row.mark.bytes}});
    if (auto share = shareOfPeak(row))
      json.back()["share_of_peak"] = *share;
  }
  return json;
}
