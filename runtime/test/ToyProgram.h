//===- ToyProgram.h - A small pipeline written by hand --------------------===//
//
// Three layers: h1 = tanh(x W0), h2 = tanh(h1 W1), y = h2 W2 + h1; the loss is
// sum((y - target)^2) / batch. h1 skips a stage where each layer has its own: a
// portal. Partitions place layers only, so all of them give the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TEST_TOYPROGRAM_H
#define PP_RUNTIME_TEST_TOYPROGRAM_H

#include "formats/Npy.h"
#include "pprt/pprt.h"

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace toy {

constexpr int width = 4, microbatchSize = 2, microbatches = 4;
constexpr int batch = microbatchSize * microbatches;

/// How the toy is partitioned and scheduled.
struct Options {
  /// First layer of each stage: {0}, {0, 1}, {0, 2} or {0, 1, 2}.
  std::vector<int> cuts = {0};
  bool oneForwardOneBackward = false;
  /// I and W as actions of their own, all W at the end.
  bool split = false;
  /// Micro-batches below this are recomputed.
  int recompute = 0;
  /// What the loss's gradient is multiplied by at first; 0: no loss scale.
  float lossScale = 0;
  /// Steps after which it doubles; 0: it is constant.
  int growthInterval = 0;
  /// Copies of the pipeline: 1, 2 or 4.
  int replicas = 1;
};

nlohmann::ordered_json trainingPlan(const Options &options);
/// Of virtual workers, which have all of their micro-batches in flight. Each
/// rank has one stage, or for each worker how many each of its ranks has.
nlohmann::ordered_json
wavePlan(const std::vector<int> &cuts, int workers, int distance,
         const std::vector<std::vector<int>> &stagesOfRanks = {});
/// In stages of the layers 0, 1 and of the others, the first of which has two
/// replicas.
nlohmann::ordered_json stageReplicasPlan();
/// The same without a flush: they update after each micro-batch (PipeDream's
/// 1F1B-RR).
nlohmann::ordered_json dealtPlan();
nlohmann::ordered_json inferencePlan(const std::vector<int> &cuts);
/// Gives each stage a P and a prepared area as large as its parameters; the
/// function of the phase is the test's.
void addPreparation(nlohmann::ordered_json &plan);

/// A binary table for the plans; owns the texts.
struct Binary {
  /// Either plan may be changed by a test first.
  Binary(const std::vector<int> &cuts, const nlohmann::ordered_json &training,
         const nlohmann::ordered_json &inference, bool hasLossScale = false);
  explicit Binary(const Options &options)
      : Binary(options.cuts, trainingPlan(options), inferencePlan(options.cuts),
               options.lossScale != 0) {}
  Binary(const Binary &) = delete;

  std::string trainingText, inferenceText;
  std::vector<pp_stage_functions> trainingStages, inferenceStages;
  pp_pipeline training, inference;
  pp_binary table;
};

/// `samples` rows of inputs "x" and targets "target".
std::map<std::string, pp::runtime::Array> data(uint64_t samples);

/// First value of weight `layer` at `index`.
float initialWeight(int layer, int index);

/// Loss and gradients of one mini-batch (rows from `first`), computed directly
/// in double for the given weights.
struct Reference {
  double loss = 0;
  std::vector<double> gradients[3];
  std::vector<double> outputs; // y, by row
};
Reference reference(const std::vector<float> *weights, const float *x,
                    const float *target);

/// Makes the phase function of layer `layer`, run for the first time with
/// `x[0] == poison`, throw or hang; see ExecutorTest.
void setFault(int layer, int kind);
enum Fault { NoFault, ThrowFault, HangFault, ComputeFault };
/// Makes the gradient of a layer infinite in a step, counted from 0 since this
/// call; layer -1: never.
void setOverflow(int layer, int step);
/// Ends all phases that hang, or compute for ever.
void releaseHangs();

} // namespace toy

#endif // PP_RUNTIME_TEST_TOYPROGRAM_H
