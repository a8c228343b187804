//===- VariantChoice.cpp - The fastest variants that fit into memory ------===//
#include "VariantChoice.h"
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

using namespace pp::planner;
using namespace pp::planner::partition;

VariantChooser::VariantChooser(const CostModel &model) : model(model) {
  if (!model.hasChoices)
    return;
  choices.resize(model.modes.size());
  for (size_t mode = 0; mode < model.modes.size(); ++mode)
    for (size_t k = 0; k < model.problem.graph->kernels.size(); ++k)
      choices[mode].push_back(model.choices(k, model.modes[mode]));
}

namespace {

constexpr size_t mostLabels = 4096;

struct Option {
  double time, bytes;
  int variant;
};

struct Label {
  double time, bytes;
  uint32_t before; // In the list of the kernel before.
  int variant;
};

/// Of the combinations of one option per kernel with at most `limit` bytes,
/// the fastest.
std::optional<VariantChooser::Fit>
combine(const std::vector<std::vector<Option>> &kernels, double limit,
        bool &isExact) {
  // Bytes that the kernels after each one need at least.
  std::vector<double> rest(kernels.size() + 1, 0);
  for (size_t k = kernels.size(); k-- > 0;) {
    double least = std::numeric_limits<double>::infinity();
    for (const Option &option : kernels[k])
      least = std::min(least, option.bytes);
    rest[k] = rest[k + 1] + least;
  }
  if (rest[0] > limit)
    return std::nullopt;
  std::vector<std::vector<Label>> lists = {{{0, 0, 0, 0}}};
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<Label> next;
    for (uint32_t i = 0; i < lists[k].size(); ++i)
      for (const Option &option : kernels[k]) {
        Label label = {lists[k][i].time + option.time,
                       lists[k][i].bytes + option.bytes, i, option.variant};
        // Sums of bytes are exact below 2^53.
        if (label.bytes + rest[k + 1] <= limit)
          next.push_back(label);
      }
    std::sort(next.begin(), next.end(), [](const Label &a, const Label &b) {
      return std::tie(a.time, a.bytes, a.before, a.variant) <
             std::tie(b.time, b.bytes, b.before, b.variant);
    });
    std::vector<Label> kept;
    for (const Label &label : next)
      if (kept.empty() || label.bytes < kept.back().bytes)
        kept.push_back(label);
    if (kept.empty())
      return std::nullopt;
    if (kept.size() > mostLabels) {
      isExact = false;
      // Spread over the whole list; the leanest must stay.
      std::vector<Label> thinned;
      for (size_t i = 0; i < mostLabels; ++i)
        thinned.push_back(kept[i * (kept.size() - 1) / (mostLabels - 1)]);
      kept = std::move(thinned);
    }
    lists.push_back(std::move(kept));
  }
  VariantChooser::Fit fit;
  fit.time = lists.back().front().time;
  fit.variants.resize(kernels.size());
  uint32_t at = 0;
  for (size_t k = kernels.size(); k-- > 0;) {
    fit.variants[k] = lists[k + 1][at].variant;
    at = lists[k + 1][at].before;
  }
  return fit;
}

} // namespace

std::optional<VariantChooser::Fit>
VariantChooser::fastest(const std::vector<size_t> &kernels, size_t mode,
                        int inFlight, bool &isExact) const {
  const Mode &how = model.modes[mode];
  double limit =
      static_cast<double>(model.classes[how.deviceClass].device.memoryBytes);
  // A bound on the workspace makes the rest a sum.
  std::set<double> workspaces;
  for (size_t kernel : kernels)
    for (const Choice &choice : choices[mode][kernel])
      workspaces.insert(choice.load.workspaceBytes);
  std::optional<Fit> best;
  for (double workspace : workspaces) {
    std::vector<std::vector<Option>> options;
    for (size_t kernel : kernels) {
      std::vector<Option> list;
      for (const Choice &choice : choices[mode][kernel])
        if (choice.load.workspaceBytes <= workspace) {
          Load load = choice.load;
          load.workspaceBytes = 0;
          list.push_back(
              {load.time, model.memory(load, inFlight), choice.variant});
        }
      if (list.empty())
        break;
      options.push_back(std::move(list));
    }
    if (options.size() != kernels.size())
      continue;
    std::optional<Fit> fit = combine(options, limit - workspace, isExact);
    if (fit && (!best || fit->time < best->time))
      best = std::move(fit);
  }
  return best;
}
