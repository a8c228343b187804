//===- ValueExchange.h - Numbers that all ranks have to know ----*- C++ -*-===//
#ifndef PP_RUNTIME_TRANSPORT_VALUEEXCHANGE_H
#define PP_RUNTIME_TRANSPORT_VALUEEXCHANGE_H

#include "program/Program.h"
#include "transport/Transport.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

namespace pp::runtime {

/// An all-gather of numbers in host memory, of each of which one rank is the
/// owner, once in a step. The last rank of a process to come exchanges what all
/// of its ranks have with the other processes.
class ValueExchange {
public:
  /// `owners` by number: the rank that has it. The processes of the program's
  /// group make one together.
  ValueExchange(const Program &program, std::vector<unsigned> owners);

  /// `rank` has set the numbers that it owns; on return, all are set. In a
  /// step, either every rank calls this once or none does. The thread waits for
  /// the others. Throws Transport::Aborted after abort().
  void allGather(unsigned rank, std::vector<double> &values);
  /// Wakes every waiting thread, for good. Any thread, any number of times.
  void abort() noexcept;

private:
  void exchange();

  std::vector<unsigned> owners;
  std::map<unsigned, std::vector<size_t>> numbersOf; // by process
  unsigned process;
  size_t ranks = 0;                   // of this process
  std::map<unsigned, Socket> sockets; // by process
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::vector<double> all, latest; // of this round, and of the last
  size_t arrived = 0;
  uint64_t rounds = 0;
  bool isAborted = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_VALUEEXCHANGE_H
