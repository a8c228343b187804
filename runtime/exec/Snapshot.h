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

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pp::runtime {

/// The best of a training's evaluations so far.
struct BestEvaluation {
  std::string metric; // empty: there was none
  double value = 0;
  uint64_t step = 0;   // that it followed
  uint64_t others = 0; // that were no better, since
};

/// Where training stands: the steps done, and where the data feed goes on.
struct TrainingPosition {
  uint64_t step = 0;        // optimizer steps done
  uint64_t epoch = 0;       // counted from 0
  uint64_t stepInEpoch = 0; // steps done of this epoch
  uint64_t seed = 0;
  bool shuffle = true;
  /// Of the training data. 0: a caller gives each step its own, and there is
  /// one epoch without end.
  uint64_t samples = 0;
  /// Whether an epoch ends with its last whole batch, and not with a smaller
  /// one of the samples behind it.
  bool dropsLast = false;
  std::vector<std::pair<std::string, double>> scalars;
  /// LearningRateSchedule::toJson(), or empty.
  std::string schedule;
  /// Steps of earlier trainings that the optimizer's state knows of.
  uint64_t optimizerSteps = 0;
  /// 0: gradients are not clipped.
  double clipNorm = 0, clipValue = 0;
  std::vector<std::string> groups; // ParameterGroup::text
  BestEvaluation best;
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
/// A tensor of 16 bits is rounded from one of f32, as it was trained. Returns
/// the number of ignored tensors. `averages`: of parameters, those that the
/// file has of them.
unsigned loadWeights(const std::string &path, const Program &program,
                     bool averages = false);

/// Throws Error(InvalidInput) for a file that has no averages of parameters.
void requireAverages(const SafetensorsFile &file);

/// The name of a parameter's average in a snapshot.
std::string averageOf(const std::string &parameter);

/// What a new training has from a file.
struct LoadedStart {
  /// Why the optimizer's state was not taken; empty: it was.
  std::string missing;
  uint64_t optimizerSteps = 0; // that the state knows of
  unsigned others = 0;         // tensors that the program does not have
};

/// Loads weights as loadWeights() does, and the optimizer's states if the file
/// has all of them, in their shapes. Nothing else of a snapshot is taken, so it
/// may be of another batch or loss. Throws Error(InvalidInput) for NaN and
/// infinity, unless `allowNotFinite`; after an error, the program is unchanged.
LoadedStart loadWeightsForTraining(const std::string &path,
                                   const Program &program,
                                   bool allowNotFinite = false);

/// Parameters and buffers of a program in which no step runs, in the first
/// process, whichever has them.
class TensorGatherer {
public:
  /// All processes make one together, and then call `serve` with the names that
  /// the first one asks `get` for, in its order. `averages`: of parameters,
  /// those that the optimizer keeps.
  explicit TensorGatherer(const Program &program, bool averages = false);
  /// The first process's: the values, until the next call.
  std::string_view get(const std::string &name);
  void serve(const std::vector<std::string> &names);

private:
  struct Entry {
    uint64_t bytes;
    const char *data; // null in another process
    unsigned process;
  };
  ProcessGroup &group;
  std::map<std::string, Entry> entries;
  std::string received;
};

/// A parameter's gradient of the last step, in a stage that is here and whose
/// image is up to date.
std::vector<char> readGradient(const Program &program,
                               const StageMemory &memory,
                               const PlanTensor &parameter);

/// Writes the gradients of the last step by the names of the parameters.
void saveGradients(const std::string &path, const Program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_SNAPSHOT_H
