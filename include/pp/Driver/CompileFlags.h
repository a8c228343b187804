//===- CompileFlags.h - Command-line flags of a compilation -----*- C++ -*-===//
//
// The flags that all tools which compile a model share; those of the importer
// are among them.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DRIVER_COMPILEFLAGS_H
#define PP_DRIVER_COMPILEFLAGS_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PipelinePlan.h"
#include "llvm/ADT/SmallVector.h"

namespace llvm::cl {
class OptionCategory;
}

namespace pp {

/// Registers the flags. Call once, before the command line is parsed. Without
/// `counts`, --microbatches and --threads-per-stage are left to a tool that
/// takes several numbers of each.
void registerCompileFlags(bool counts = true);

/// Those that say what is computed, without those that say how it is
/// pipelined: for a tool that decides about that.
void registerModelFlags();

/// The categories of what was registered, for --help.
llvm::SmallVector<llvm::cl::OptionCategory *> getCompileCategories();

/// Whether a flag's number of stages, micro-batches or the like can be, which
/// is from 1 to 2^20.
llvm::Error checkCount(llvm::StringRef flag, int64_t value);

/// Whether that many threads can compute a stage together on `target`.
llvm::Error checkThreads(int64_t threads, const Target &target);

/// Reads what pp-plan wrote.
llvm::Expected<planner::PipelinePlan> readPlanFile(llvm::StringRef path);

/// What the flags say; fails with the name of the flag if a value is wrong.
llvm::Expected<CompileOptions> getCompileOptions();

} // namespace pp

#endif // PP_DRIVER_COMPILEFLAGS_H
