//===- GeneratedGraphs.h - Graphs with the shape of known models ----------===//
//
// Shapes are those of the models, numbers are drawn with a fixed seed. With
// `training`, every kernel has a mate in the backward pass, as in workloads
// that list both.
//
//===----------------------------------------------------------------------===//
#ifndef PP_BENCHMARKS_PLANNER_GENERATEDGRAPHS_H
#define PP_BENCHMARKS_PLANNER_GENERATEDGRAPHS_H

#include "pp/Planner/Graph.h"
#include <random>
#include <string>
#include <vector>

namespace pp::planner::generated {

class Builder {
public:
  explicit Builder(unsigned seed) : engine(seed) {}
  Graph graph;

  /// Between half and one and a half times the mean.
  double around(double mean) {
    return mean * (0.5 + static_cast<double>(engine() % 1000) / 1000);
  }

  /// A kernel that reads from others, each of which has one value.
  size_t kernel(double milliseconds, const std::vector<size_t> &inputs,
                double megabytes = 1) {
    Kernel kernel;
    kernel.name = "k" + std::to_string(graph.kernels.size());
    kernel.forwardTime = milliseconds > 0 ? around(milliseconds * 1e-3) : 0;
    if (milliseconds > 0) {
      kernel.parameterBytes = static_cast<int64_t>(around(4e6));
      kernel.savedBytes = static_cast<int64_t>(around(2e6));
    }
    size_t index = graph.addKernel(kernel);
    bytes.push_back(static_cast<int64_t>(around(megabytes * 1e6)));
    for (size_t input : inputs)
      graph.addEdge(input, index, bytes[input], "out");
    return index;
  }

  size_t chain(size_t length, double milliseconds, size_t input,
               double megabytes = 1) {
    for (size_t i = 0; i < length; ++i)
      input = kernel(milliseconds, {input}, megabytes);
    return input;
  }

  /// Adds the backward pass, kernel by kernel.
  void addBackward() {
    size_t forward = graph.kernels.size();
    std::vector<Value> values = graph.values;
    std::vector<size_t> mate(forward);
    for (size_t k = forward; k-- > 0;) {
      graph.kernels[k].colocationClass = static_cast<int>(k);
      Kernel kernel;
      kernel.name = graph.kernels[k].name + "'";
      kernel.forwardTime = 2 * graph.kernels[k].forwardTime;
      kernel.colocationClass = static_cast<int>(k);
      kernel.backward = true;
      mate[k] = graph.addKernel(kernel);
    }
    for (size_t v = values.size(); v-- > 0;)
      for (size_t consumer : values[v].consumers)
        graph.addEdge(mate[consumer], mate[values[v].producer], values[v].bytes,
                      "gradient of " + std::to_string(values[v].producer));
  }

private:
  std::mt19937 engine;
  std::vector<int64_t> bytes;
};

/// Blocks of four branches between concatenations.
inline Graph inception(bool training, size_t blocks = 11, unsigned seed = 1,
                       const std::vector<size_t> &branches = {4, 7, 10, 6}) {
  Builder builder(seed);
  size_t last = builder.chain(12, 1, builder.kernel(1, {}), 2);
  for (size_t block = 0; block < blocks; ++block) {
    std::vector<size_t> ends;
    for (size_t length : branches)
      ends.push_back(builder.chain(length, 0.5, last, 0.4));
    last = builder.kernel(0.1, ends);
  }
  builder.chain(5, 0.5, last, 0.1);
  if (training)
    builder.addBackward();
  return std::move(builder.graph);
}

/// Operators of encoder layers; weights and constants are kernels of their own
/// that take no time.
inline Graph bert(bool training, size_t layers = 12, unsigned seed = 2) {
  Builder builder(seed);
  auto constant = [&](double megabytes) {
    return builder.kernel(0, {}, megabytes);
  };
  size_t mask = builder.kernel(0.05, {}, 0.1);
  size_t last = builder.kernel(0.2, {constant(90)});
  for (size_t layer = 0; layer < layers; ++layer) {
    size_t heads[3];
    for (size_t &head : heads) {
      size_t product = builder.kernel(1, {last, constant(2.4)});
      size_t biased = builder.kernel(0.1, {product, constant(0.003)});
      head = builder.kernel(0, {builder.kernel(0, {biased, constant(0.001)})});
    }
    size_t scores = builder.kernel(0.5, {heads[0], heads[1]}, 3);
    size_t scaled = builder.kernel(0.1, {scores, constant(0.001)}, 3);
    size_t masked = builder.kernel(0.1, {scaled, mask}, 3);
    size_t weights = builder.chain(2, 0.2, masked, 3);
    size_t context = builder.kernel(0.5, {weights, heads[2]});
    size_t joined = builder.kernel(0, {context});
    size_t projected = builder.kernel(1, {joined, constant(2.4)});
    size_t sum = builder.kernel(0.1, {projected, last});
    size_t mean = builder.kernel(0.05, {sum}, 0.01);
    size_t centred = builder.kernel(0.05, {sum, mean});
    size_t variance = builder.kernel(0.05, {centred}, 0.01);
    size_t norm = builder.kernel(0.1, {centred, variance, constant(0.003)});
    size_t wide = builder.kernel(3, {norm, constant(9.4)}, 4);
    size_t active = builder.chain(4, 0.3, wide, 4);
    size_t narrow = builder.kernel(3, {active, constant(9.4)});
    last = builder.kernel(0.2, {narrow, norm});
  }
  builder.chain(3, 0.5, last, 0.1);
  if (training)
    builder.addBackward();
  return std::move(builder.graph);
}

/// An unrolled stack of recurrent layers: a grid.
inline Graph gnmt(bool training, size_t layers = 6, size_t steps = 12,
                  unsigned seed = 3) {
  Builder builder(seed);
  std::vector<size_t> below(steps);
  for (size_t step = 0; step < steps; ++step)
    below[step] = builder.kernel(0.1, {}, 0.5);
  for (size_t layer = 0; layer < layers; ++layer)
    for (size_t step = 0; step < steps; ++step)
      below[step] =
          step == 0 ? builder.kernel(1, {below[0]}, 0.5)
                    : builder.kernel(1, {below[step], below[step - 1]}, 0.5);
  builder.kernel(2, below);
  if (training)
    builder.addBackward();
  return std::move(builder.graph);
}

/// Cells that read from the two cells before, with pairs of branches.
inline Graph nasnet(bool training, size_t cells = 12, unsigned seed = 4,
                    int pairs = 5) {
  Builder builder(seed);
  size_t before = builder.kernel(1, {}), last = builder.kernel(1, {before});
  for (size_t cell = 0; cell < cells; ++cell) {
    std::vector<size_t> sums;
    for (int pair = 0; pair < pairs; ++pair)
      sums.push_back(builder.kernel(0.1,
                                    {builder.chain(3, 0.4, last, 0.5),
                                     builder.chain(3, 0.4, before, 0.5)},
                                    0.5));
    before = last;
    last = builder.kernel(0.1, sums);
  }
  if (training)
    builder.addBackward();
  return std::move(builder.graph);
}

inline Graph chain(size_t kernels, unsigned seed = 5) {
  Builder builder(seed);
  builder.chain(kernels - 1, 1, builder.kernel(1, {}));
  return std::move(builder.graph);
}

} // namespace pp::planner::generated

#endif // PP_BENCHMARKS_PLANNER_GENERATEDGRAPHS_H
