//===- FlagExchange.h - What all ranks have to know of each other ---------===//
#ifndef PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H
#define PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H

#include "program/Program.h"
#include "transport/Transport.h"

#include <memory>

namespace pp::runtime {

/// Gives every rank a number of each rank, once in a step.
class FlagExchange {
public:
  virtual ~FlagExchange() = default;
  /// `flags` has a float for each rank, in memory of the device. The compute
  /// stream has set that of `rank`; afterwards it finds there those of all
  /// ranks. Each rank calls it once in a step, after all its transfers, or none
  /// does. Throws Transport::Aborted after abort().
  virtual void agree(unsigned rank, float *flags, RankStreams &streams) = 0;
  /// Wakes every waiting thread, for good. Any thread, any number of times.
  virtual void abort() noexcept = 0;
};

/// For the ranks of the program's group; its processes make it together.
std::unique_ptr<FlagExchange> createFlagExchange(const Program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H
