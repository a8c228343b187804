//===- WeightFiles.h - First values of parameters and buffers -------------===//
#ifndef PP_RUNTIME_PROGRAM_WEIGHTFILES_H
#define PP_RUNTIME_PROGRAM_WEIGHTFILES_H

#include "program/StageMemory.h"
#include "support/MappedFile.h"

#include <optional>
#include <string>
#include <vector>

namespace pp::runtime {

/// The files that a plan's sources refer to, mapped when first needed.
class WeightFiles {
public:
  /// With `directory`, files are looked up there by file name instead of where
  /// they were at compile time. With `verify`, what is loaded has to have the
  /// hashes of the plan.
  WeightFiles(const Plan &plan, std::string directory, bool verify = true);

  /// Fills parameters and buffers of `memory` from their sources. Throws
  /// Error(IO) for a missing file, Error(InvalidInput) for one of another size
  /// or content.
  void load(const StageMemory &memory);

  /// Where a file of the plan is looked up.
  std::string pathOf(unsigned index) const;

private:
  const MappedFile &get(unsigned index);
  void fill(const PlanTensor &tensor, char *target);

  const Plan &plan;
  std::string directory;
  bool verify;
  std::vector<std::optional<MappedFile>> files;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROGRAM_WEIGHTFILES_H
