//===- PlanPage.cpp - A plan as a web page --------------------------------===//

#include "pp/Report/PlanPage.h"
#include "pp/Planner/PlanMemoryCurves.h"
#include "pp/Report/Format.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pp;
using namespace pp::planner;

namespace {

constexpr double pageWidth = 1180;

/// Colours that stay apart for any number of stages: steps of the golden angle.
std::string stageColour(int stage) {
  return llvm::formatv("hsl({0}, 62%, 58%)", (stage * 137 + 210) % 360);
}

std::string escape(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream os(result);
  llvm::printHTMLEscaped(text, os);
  return result;
}

class Page {
public:
  Page(const PlanCandidate &candidate, const PlanEvaluation &evaluation,
       llvm::raw_ostream &os)
      : plan(candidate.plan), graph(*candidate.draft.graph),
        evaluation(evaluation), os(os) {}

  void write() {
    os << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
       << "<title>" << escape(plan.model) << "</title><style>"
       << "body{font:14px sans-serif;margin:24px;max-width:1180px}"
       << "table{border-collapse:collapse}td,th{padding:3px 12px;"
       << "text-align:right;border-bottom:1px solid #ddd}"
       << "svg{border:1px solid #ddd;display:block}text{font:10px sans-serif}"
       << ".scroll{overflow:auto;max-height:640px}</style></head><body>\n"
       << "<h1>" << escape(plan.model) << ": " << plan.schedule.parts()
       << " stages on " << plan.schedule.ranks.size() << " ranks, "
       << escape(plan.scheduleName) << "</h1>\n<p>" << plan.microbatches()
       << " micro-batches, step " << formatTime(plan.predicted.step) << ", "
       << llvm::formatv("{0:F1}", plan.predicted.throughput)
       << " samples/s, bubble "
       << llvm::formatv("{0:F1}", 100 * plan.predicted.bubble) << " %</p>\n";
    writeStages();
    writeTimeline();
    writeMemory();
    writeGraph();
    os << "</body></html>\n";
  }

private:
  void writeStages() {
    os << "<h2>Stages</h2><table><tr><th>stage</th><th>device</th><th>kernels"
       << "</th><th>F</th><th>I</th><th>W</th><th>parameters</th><th>kept per "
       << "micro-batch</th><th>memory</th></tr>\n";
    std::vector<size_t> counts(plan.stages.size());
    for (const PlacedKernel &kernel : plan.kernels)
      ++counts[kernel.stage];
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const PlanStage &stage = plan.stages[s];
      os << "<tr><td style=\"background:" << stageColour(static_cast<int>(s))
         << "\">" << s << "</td><td>" << escape(llvm::join(stage.devices, ", "))
         << "</td><td>" << counts[s] << "</td><td>" << formatTime(stage.forward)
         << "</td><td>" << formatTime(stage.backwardInput) << "</td><td>"
         << formatTime(stage.backwardWeight) << "</td><td>"
         << formatBytes(stage.parameterBytes) << "</td><td>"
         << formatBytes(stage.savedBytes) << "</td><td>"
         << formatBytes(evaluation.stages[s].memoryBytes) << "</td></tr>\n";
    }
    os << "</table>\n";
  }

  double x(double time) const {
    return 40 + (pageWidth - 60) * time / evaluation.simulation.makespan;
  }

  void writeTimeline() {
    constexpr double row = 26;
    const auto &ranks = evaluation.simulation.ranks;
    os << "<h2>Timeline</h2><p>Stages by colour; F full, I and B lighter, W "
       << "lightest, R hatched by a frame.</p><svg width=\"" << pageWidth
       << "\" height=\"" << row * static_cast<double>(ranks.size()) + 8
       << "\">\n";
    for (size_t r = 0; r < ranks.size(); ++r) {
      double top = 4 + row * static_cast<double>(r);
      os << llvm::formatv("<text x=\"4\" y=\"{0:F1}\">rank {1}</text>\n",
                          top + 15, r);
      for (const TimedAction &timed : ranks[r]) {
        const Action &action = timed.action;
        if (action.isTransfer() || timed.end <= timed.start)
          continue;
        double opacity = action.kind == ActionKind::BackwardWeight ? 0.35
                         : action.kind == ActionKind::Backward ||
                                 action.kind == ActionKind::BackwardInput
                             ? 0.65
                             : 1;
        double width = x(timed.end) - x(timed.start);
        os << llvm::formatv(
            "<rect x=\"{0:F2}\" y=\"{1:F1}\" width=\"{2:F2}\" height=\"22\" "
            "fill=\"{3}\" fill-opacity=\"{4}\" stroke=\"{5}\"><title>{6}: "
            "{7} to {8}</title></rect>\n",
            x(timed.start), top, width,
            stageColour(evaluation.schedule.replicaOf(action.stage).part),
            opacity, action.kind == ActionKind::Recompute ? "#000" : "#fff",
            toString(action, evaluation.schedule.channels),
            formatTime(timed.start), formatTime(timed.end));
        if (width > 14 && action.microbatch >= 0)
          os << llvm::formatv(
              "<text x=\"{0:F2}\" y=\"{1:F1}\" text-anchor=\"middle\" "
              "pointer-events=\"none\">{2}</text>\n",
              x(timed.start) + width / 2, top + 15, action.microbatch);
      }
    }
    os << "</svg>\n";
  }

  void writeMemory() {
    constexpr double height = 180;
    std::vector<MemoryCurve> curves = memoryCurves(evaluation);
    int64_t most = 1;
    for (const MemoryCurve &curve : curves)
      most = std::max(most, curve.peak);
    os << "<h2>Memory</h2><p>Per rank over the step; at most "
       << formatBytes(most) << ".</p><svg width=\"" << pageWidth
       << "\" height=\"" << height + 10 << "\">\n";
    auto y = [&](int64_t bytes) {
      return 5 + height * (1 - static_cast<double>(bytes) /
                                   static_cast<double>(most));
    };
    for (size_t r = 0; r < curves.size(); ++r) {
      std::string points;
      const std::vector<MemoryStep> &steps = curves[r].steps;
      for (size_t i = 0; i < steps.size(); ++i) {
        double end = i + 1 < steps.size() ? steps[i + 1].time
                                          : evaluation.simulation.makespan;
        points += llvm::formatv("{0:F2},{2:F2} {1:F2},{2:F2} ",
                                x(steps[i].time), x(end), y(steps[i].bytes));
      }
      os << "<polyline fill=\"none\" stroke=\""
         << stageColour(static_cast<int>(r)) << "\" stroke-width=\"1.5\" "
         << "points=\"" << points << "\"><title>rank " << r
         << "</title></polyline>\n";
    }
    os << "</svg>\n";
  }

  /// Kernels in columns by the longest path to them.
  void writeGraph() {
    // Kernels are in topological order.
    std::vector<std::vector<size_t>> producers(graph.kernels.size());
    for (const Value &value : graph.values)
      for (size_t consumer : value.consumers)
        producers[consumer].push_back(value.producer);
    std::vector<int> depth(graph.kernels.size(), 0);
    for (size_t k = 0; k < depth.size(); ++k)
      for (size_t producer : producers[k])
        depth[k] = std::max(depth[k], depth[producer] + 1);
    std::vector<int> used;
    std::vector<std::pair<double, double>> at(graph.kernels.size());
    int deepest = 0, widest = 1;
    for (size_t k = 0; k < at.size(); ++k) {
      if (depth[k] >= static_cast<int>(used.size()))
        used.resize(depth[k] + 1);
      int line = used[depth[k]]++;
      at[k] = {16 + 18 * depth[k], 16 + 18 * line};
      deepest = std::max(deepest, depth[k]);
      widest = std::max(widest, line + 1);
    }
    os << "<h2>Kernels</h2><p>In the direction of the data, coloured by "
       << "stage; the lines that cross colours are transfers.</p>"
       << "<div class=\"scroll\"><svg width=\"" << 40 + 18 * deepest
       << "\" height=\"" << 40 + 18 * widest << "\">\n";
    for (const Value &value : graph.values)
      for (size_t consumer : value.consumers) {
        bool crosses =
            plan.kernels[value.producer].stage != plan.kernels[consumer].stage;
        os << llvm::formatv(
            "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{3}\" stroke=\"{4}\">"
            "<title>{5}, {6}</title></line>\n",
            at[value.producer].first, at[value.producer].second,
            at[consumer].first, at[consumer].second, crosses ? "#c00" : "#bbb",
            escape(value.name), formatBytes(value.bytes));
      }
    for (size_t k = 0; k < at.size(); ++k)
      os << llvm::formatv(
          "<circle cx=\"{0}\" cy=\"{1}\" r=\"6\" fill=\"{2}\"><title>{3}: "
          "stage {4}, {5}</title></circle>\n",
          at[k].first, at[k].second, stageColour(plan.kernels[k].stage),
          escape(graph.kernels[k].name), plan.kernels[k].stage,
          formatTime(graph.kernels[k].time()));
    os << "</svg></div>\n";
  }

  const PipelinePlan &plan;
  const Graph &graph;
  const PlanEvaluation &evaluation;
  llvm::raw_ostream &os;
};

} // namespace

void pp::writePage(const PlanCandidate &candidate,
                   const PlanEvaluation &evaluation, llvm::raw_ostream &os) {
  Page(candidate, evaluation, os).write();
}
