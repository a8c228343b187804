//===- FlagExchange.h - What all ranks have to know of each other ---------===//
#ifndef PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H
#define PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H

#include "program/Program.h"
#include "transport/Transport.h"

#include <memory>

namespace pp::runtime {

/// An all-gather of one number per rank, once in a step.
class FlagExchange {
public:
  virtual ~FlagExchange() = default;
  /// `flags` is an array in memory of the device, with a float for each rank.
  /// The compute stream of `rank` has set that of `rank`; what is enqueued on
  /// it after this call finds those of all ranks. In a step, either every rank
  /// calls this once, after all its transfers, or none does. Throws
  /// Transport::Aborted after abort().
  virtual void allGather(unsigned rank, float *flags, RankStreams &streams) = 0;
  /// Wakes every waiting thread, for good. Any thread, any number of times.
  virtual void abort() noexcept = 0;
};

/// For the ranks of the program's group; its processes make it together.
std::unique_ptr<FlagExchange> createFlagExchange(const Program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_FLAGEXCHANGE_H
