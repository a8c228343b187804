//===- LoadedProgram.h - A model inside of another program ------*- C++ -*-===//
#ifndef PP_RUNTIME_LIBRARY_LOADEDPROGRAM_H
#define PP_RUNTIME_LIBRARY_LOADEDPROGRAM_H

#include "cli/Buckets.h"
#include "cli/Trainer.h"
#include "exec/DataSet.h"
#include "library/SharedObject.h"
#include "library/Tensors.h"
#include "library/WeightTable.h"

#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pp::runtime {

/// What stands behind a pp_program. Functions throw Error; those that are not
/// const need the mutex.
class LoadedProgram {
public:
  using Tensors = std::span<const pp_tensor>;

  LoadedProgram(const std::string &path, bool trains,
                const std::vector<std::string> &flags);
  LoadedProgram(const LoadedProgram &) = delete;
  LoadedProgram &operator=(const LoadedProgram &) = delete;

  std::recursive_mutex &getMutex() const { return mutex; }
  unsigned batch() const { return inferencePorts.batch; }
  /// Throws Error(Usage) where there is no training program.
  const std::vector<PortDescription> &inputs(bool ofTraining) const;
  const std::vector<PortDescription> &outputs() const {
    return inferencePorts.outputs;
  }

  void submit(Tensors inputs);
  pp_step_result wait();
  size_t countInFlight() const;
  size_t mostInFlight() const;
  void train(Tensors inputs, uint64_t epochs, bool shuffle,
             pp_progress progress, void *data);

  double getScalar(const std::string &name) const;
  void setScalar(const std::string &name, double value);

  void infer(Tensors inputs, Tensors outputs);
  std::vector<double> evaluate(Tensors inputs,
                               const std::vector<std::string> &metrics);

  const WeightTable &getWeights() const { return *weights; }
  void readWeight(const pp_tensor &target);
  void writeWeight(const pp_tensor &source);
  void readGradient(const pp_tensor &target);
  void readParameters(void *target, uint64_t bytes);
  void writeParameters(const void *source, uint64_t bytes);

  void save(const std::string &path);
  void load(const std::string &path);
  void loadWeights(const std::string &path);
  void exportModel(const std::string &path, const std::string &model);

private:
  struct Ports {
    unsigned batch = 0;
    std::vector<PortDescription> inputs, outputs;
  };
  /// The inference program with its memory.
  struct Inference {
    Inference(LoadedProgram &owner, const pp_pipeline &pipeline);
    Program program;
    std::optional<Executor> executor;
  };

  static Ports describePorts(const pp_pipeline &pipeline);
  Trainer &requireTrainer() const;
  void startTrainer();
  void requireParametersBytes(const void *buffer, uint64_t bytes) const;
  DataSet trainingData(Tensors inputs) const;
  void submitRows(const DataSet &data, const std::vector<uint64_t> &order,
                  uint64_t first);
  pp_step_result finishOne();
  /// Lets all steps end; wait() gives what they have given.
  void drain();
  void countEpochs();
  Inference &freshInference();
  std::map<std::string, Array> inferArrays(Tensors inputs, Buckets::Fit &fit,
                                           bool allowOthers);

  mutable std::recursive_mutex mutex;
  SharedObject library;
  TrainOptions options;
  Normalizations normalizations;
  Buckets inferenceBuckets;
  std::optional<Buckets> trainingBuckets;
  Ports inferencePorts;
  std::optional<Ports> trainingPorts;
  std::string targetName;
  std::string comparedName; // the output; empty: the only one
  std::optional<int64_t> ignoreIndex;
  std::shared_ptr<Device> device;
  std::optional<Program> training;
  std::optional<Inference> inference;
  std::unique_ptr<Trainer> trainer; // with `training`
  std::optional<WeightTable> weights;
  std::deque<pp_step_result> finished; // not waited for by the caller
  std::vector<uint64_t> firstRows;     // 0, 1, 2, ...: the order of a step
  bool isStale = false; // the inference program has older weights
};

} // namespace pp::runtime

#endif // PP_RUNTIME_LIBRARY_LOADEDPROGRAM_H
