//===- SameContents.h - All processes have to read the same ---------------===//
#ifndef PP_RUNTIME_CLI_SAMECONTENTS_H
#define PP_RUNTIME_CLI_SAMECONTENTS_H

#include "cli/CommandLine.h"
#include "exec/DataSet.h"
#include "program/Program.h"

#include <string>
#include <vector>

namespace pp::runtime {

// All processes of the group call these together; one process alone does
// nothing. All throw Error(Usage) that names the processes and the files.

/// Compares the number of samples and every value of every feed. `flag` and
/// `file` say where the data are from, `inputs` are those of --input.
void compareData(ProcessGroup &group, const Plan &plan, const DataSet &data,
                 const std::string &flag, const std::string &file,
                 const std::vector<std::string> &inputs);

/// Compares an array of `flag` that is no feed.
void compareArray(ProcessGroup &group, const std::string &name,
                  const Array &array, const std::string &flag,
                  const std::string &file);

/// Compares what is in the files, in order; a process that does not use one
/// gives an empty name. A file that is the same one for all of them, on one
/// machine, is not read for that.
void compareFiles(ProcessGroup &group, const std::string &what,
                  const std::vector<std::string> &files);

/// Compares the weight files that the program's stages take values from.
void compareWeights(const Program &program, const std::string &directory);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_SAMECONTENTS_H
