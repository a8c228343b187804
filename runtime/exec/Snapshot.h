//===- Snapshot.h - A training state in a safetensors file ----------------===//
//
// Tensors: parameters and mutable buffers by name, optimizer states as
// `<parameter>#<state>`. The file knows nothing of stages: it loads into any
// partition of the model.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_EXEC_SNAPSHOT_H
#define PP_RUNTIME_EXEC_SNAPSHOT_H

#include "formats/Safetensors.h"
#include "program/Program.h"

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
  /// Whether an epoch ends with its last whole batch, and not with a smaller
  /// one of the samples behind it.
  bool dropsLast = false;
  std::vector<std::pair<std::string, double>> scalars;
};

/// Steps of an epoch.
uint64_t stepsOfEpoch(uint64_t samples, uint64_t batch, bool dropsLast);

/// Writes the state of a training program in which no step runs. Throws
/// Error(Internal) when copies of a tensor in several stages differ.
void saveSnapshot(const std::string &path, const Program &program,
                  const TrainingPosition &position);

/// What loadSnapshot() takes although it looks wrong.
struct SnapshotLeniency {
  bool otherModel = false; // with the same tensors
  bool notFinite = false;  // NaN and infinity in tensors
};

/// Loads everything and returns the position. Throws Error(InvalidInput) for a
/// snapshot of another model, for a position that no training reaches, and for
/// a tensor, which it names, that is missing, of another shape, unknown to the
/// program, damaged or not finite. After an error, the program is unchanged.
TrainingPosition loadSnapshot(const std::string &path, const Program &program,
                              const SnapshotLeniency &leniency = {});

/// Loads parameters and buffers by name from any safetensors file; optimizer
/// states and other tensors in it are ignored. Hashes in the file are checked.
/// Returns the number of ignored tensors.
unsigned loadWeights(const std::string &path, const Program &program);

/// Writes the gradients of the last step by the names of the parameters.
void saveGradients(const std::string &path, const Program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_SNAPSHOT_H
