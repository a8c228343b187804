//===- Snapshot.h - A training state in a safetensors file ----------------===//
//
// Tensors: parameters and mutable buffers by name, optimizer states as
// `<parameter>#<state>`. The file knows nothing of stages: it loads into any
// partition of the model.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CORE_SNAPSHOT_H
#define PP_RUNTIME_CORE_SNAPSHOT_H

#include "core/Program.h"
#include "core/Safetensors.h"

#include <string>
#include <utility>
#include <vector>

namespace pp::runtime {

/// Where training stands: the steps done, and where the data feed goes on.
struct TrainingPosition {
  uint64_t step = 0;        // optimizer steps done
  uint64_t epoch = 0;       // counted from 0
  uint64_t stepInEpoch = 0; // steps done of this epoch
  uint64_t seed = 0;
  bool shuffle = true;
  uint64_t samples = 0; // of the training data
  std::vector<std::pair<std::string, double>> scalars;
};

/// Writes the state of a training program in which no step runs. Throws
/// Error(Internal) when copies of a tensor in several stages differ.
void saveSnapshot(const std::string &path, const Program &program,
                  const TrainingPosition &position);

/// Loads everything and returns the position. Throws Error(InvalidInput) naming
/// a tensor that is missing, of another shape, or unknown to the program.
TrainingPosition loadSnapshot(const std::string &path, const Program &program);

/// Loads parameters and buffers by name from any safetensors file; optimizer
/// states and other tensors in it are ignored. Returns how many others.
unsigned loadWeights(const std::string &path, const Program &program);

/// Writes the gradients of the last step by the names of the parameters.
void saveGradients(const std::string &path, const Program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_SNAPSHOT_H
