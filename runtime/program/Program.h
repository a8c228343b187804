//===- Program.h - A compiled pipeline with its memory --------------------===//
#ifndef PP_RUNTIME_PROGRAM_PROGRAM_H
#define PP_RUNTIME_PROGRAM_PROGRAM_H

#include "pprt/pprt.h"
#include "process/Placement.h"
#include "process/ProcessGroup.h"
#include "program/RankCores.h"
#include "program/StageMemory.h"
#include "program/WeightFiles.h"

#include <deque>
#include <string>

namespace pp::runtime {

/// Checks a pp_pipeline against its plan; holds the plan and, after allocate(),
/// the memory of all stages. Not movable: memories point at the plan.
class Program {
public:
  /// Throws Error for a plan that is invalid or does not fit the functions. The
  /// memory is that of `device`; this process runs the part of the ranks that
  /// falls to it in `group`. Both have to outlive the program.
  explicit Program(const pp_pipeline &program, Device &device = getCpuDevice(),
                   ProcessGroup &group = getLoneProcess());
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const Plan &getPlan() const { return plan; }
  const pp_pipeline &getFunctions() const { return functions; }
  Device &getDevice() const { return device; }
  DeviceProgram &getCode() const { return *code; }
  ProcessGroup &getGroup() const { return group; }
  const Placement &getPlacement() const { return placement; }
  std::string_view getPlanText() const {
    return {functions.plan, functions.plan_size};
  }

  /// Gives each thread of a rank a core of its own, before allocate and an
  /// executor. Throws Error(Usage) where there are too few.
  void pin();
  /// Of a rank; empty: any.
  const Cores &coresOf(unsigned rank) const { return cores[rank]; }

  /// Allocates this process's stages and fills parameters and buffers from
  /// their sources; see WeightFiles for the arguments.
  void allocate(const std::string &weightsDirectory, bool verifyWeights = true);
  /// About how much address space an executor of this process's ranks takes to
  /// start: their threads, and the code of their kernels.
  uint64_t bytesToStart() const;
  /// What has to be left at any time while it starts.
  static constexpr uint64_t headroomPerRank = 6'000'000;
  /// By stage.
  const std::deque<StageMemory> &getMemories() const { return memories; }

  /// See StageMemory.
  void leaveShared();

  /// Brings the images of all stages up to date, or makes them count; see
  /// StageMemory. No step may run.
  void download() const;
  void upload() const;
  /// How often uploads have made weights count: what was computed from them
  /// before is stale.
  uint64_t countUploads() const { return uploads; }

  /// Copies every parameter and buffer that `other` holds too (by name) into
  /// this program, whichever process has it; the other buffers keep their
  /// values. All processes call it together. No step of either program may run.
  /// Throws Error(Internal) where a parameter has no counterpart or another
  /// shape.
  /// `averages`: of parameters, those that the optimizer of `other` keeps.
  void copyWeightsFrom(const Program &other, bool averages = false);

  /// Lets averages of parameters, if the optimizer keeps them, begin with what
  /// these are now, in the images.
  void startAverages() const;

private:
  bool receivesFromPeer(unsigned stage) const;
  unsigned rankOf(unsigned stage) const;
  /// Of a virtual worker: its part of the weights that all share.
  void fillShard(const StageMemory &memory) const;

  const pp_pipeline functions;
  Device &device;
  ProcessGroup &group;
  Plan plan;
  Placement placement;
  std::unique_ptr<DeviceProgram> code;
  std::deque<StageMemory> memories;
  std::vector<Cores> cores; // by rank
  mutable uint64_t uploads = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROGRAM_PROGRAM_H
