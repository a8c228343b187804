//===- RunOnAllProcesses.h - One command in several processes -------------===//
#ifndef PP_RUNTIME_CLI_RUNONALLPROCESSES_H
#define PP_RUNTIME_CLI_RUNONALLPROCESSES_H

#include "cli/CommandLine.h"
#include "process/ProcessGroup.h"

#include <functional>

namespace pp::runtime {

/// Runs `work` in this process, or in each process of the job that a launcher
/// or `--processes` started, as a group. `agreed` are the options that all have
/// to have alike, `programs` those that it runs: one with fewer ranks than
/// there are processes is refused before anything starts. Returns the exit
/// code; throws what `work` throws. Only the first process may print to
/// standard output and write files.
int runOnAllProcesses(const pp_binary &binary, const RunOptions &options,
                      const std::vector<const pp_pipeline *> &programs,
                      const std::string &agreed,
                      const std::function<int(ProcessGroup &)> &work);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_RUNONALLPROCESSES_H
