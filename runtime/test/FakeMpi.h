//===- FakeMpi.h - An MPI between threads of one process ------------------===//
#ifndef PP_RUNTIME_TEST_FAKEMPI_H
#define PP_RUNTIME_TEST_FAKEMPI_H

#include "pprt/mpi.h"

namespace pp::runtime {

/// What the implementations of MPI may do differently.
struct FakeMpi {
  bool threads = true;           ///< any thread may call
  uint64_t eagerBytes = 0;       ///< up to that, a send does not wait
  uint64_t mostBytes = 16 << 20; ///< of a message
  uint64_t pieceBytes = 1 << 18; ///< of a part of a longer one
  uint32_t mostTag = 32767;
  uint32_t processes = 0; ///< what it says that there are; 0: the truth
  /// Sends to it and receives from it fail.
  uint32_t broken = PP_MPI_ANY;
  /// The same of values: what the processes tell each other comes through.
  uint32_t brokenValues = PP_MPI_ANY;
};

/// The functions of such an MPI. Its options hold for jobs that are opened from
/// now on. ThreadSanitizer sees every copy, as of ordinary memory. A call by a
/// thread that must not ends the program.
const pp_mpi_table &fakeMpi(const FakeMpi &options = {});

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_FAKEMPI_H
