//===- Program.h - A compiled pipeline with its memory --------------------===//
#ifndef PP_RUNTIME_CORE_PROGRAM_H
#define PP_RUNTIME_CORE_PROGRAM_H

#include "core/StageMemory.h"
#include "core/WeightFiles.h"
#include "pprt/pprt.h"

#include <deque>
#include <string>

namespace pp::runtime {

/// Checks a pp_program against its plan; holds the plan and, after allocate(),
/// the memory of all stages. Not movable: memories point at the plan.
class Program {
public:
  /// Throws Error for a plan that is invalid or does not fit the functions. The
  /// memory is that of `device`, which has to outlive the program.
  explicit Program(const pp_program &program, Device &device = getCpuDevice());
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const Plan &getPlan() const { return plan; }
  const pp_program &getFunctions() const { return functions; }
  Device &getDevice() const { return device; }
  DeviceProgram &getCode() const { return *code; }
  std::string_view getPlanText() const {
    return {functions.plan, functions.plan_size};
  }

  /// Allocates all stages and fills parameters and buffers from their sources;
  /// see WeightFiles for `weightsDirectory`.
  void allocate(const std::string &weightsDirectory);
  const std::deque<StageMemory> &getMemories() const { return memories; }

  /// Brings the images of all stages up to date, or makes them count; see
  /// StageMemory. No step may run.
  void download() const;
  void upload() const;

  /// Copies every parameter and buffer that `other` holds too (by name) into
  /// this program, and the other buffers from their sources. No step of either
  /// program may run. Throws Error(Internal) where a parameter has no
  /// counterpart or another shape.
  void copyWeightsFrom(const Program &other);

private:
  const pp_program functions;
  Device &device;
  Plan plan;
  std::unique_ptr<DeviceProgram> code;
  std::deque<StageMemory> memories;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_PROGRAM_H
