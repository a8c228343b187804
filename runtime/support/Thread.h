//===- Thread.h - Threads that may not start ------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_THREAD_H
#define PP_RUNTIME_SUPPORT_THREAD_H

#include <functional>
#include <string>
#include <thread>

namespace pp::runtime {

/// Starts a thread. Throws Error(IO) where the system has no room for one;
/// `what` it is for, and how much it needs, are in the message. `body` must
/// not throw.
std::thread startThread(const std::string &what, std::function<void()> body);

/// Address space that a new thread takes for its stack.
uint64_t threadStackBytes();

/// Asks the system to let this thread go first when it wakes on a core where
/// another computes: its turns are short. Linux has this from 6.12 on (EEVDF,
/// sched_setattr(2)); elsewhere the call does nothing.
void askForShortTurns();

/// For tests: lets the start of the `count`th thread from now on fail, as if
/// the system had none left; 0: of none.
void failThreadStart(unsigned count);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_THREAD_H
