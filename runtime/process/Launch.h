//===- Launch.h - How this process was started ----------------------------===//
#ifndef PP_RUNTIME_PROCESS_LAUNCH_H
#define PP_RUNTIME_PROCESS_LAUNCH_H

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace pp::runtime {

class MpiEndpoint;

/// Which of several processes this is, and where they meet.
struct Launch {
  std::string launcher; // empty: this process is alone
  unsigned process = 0, processes = 1;
  unsigned localProcess = 0, localProcesses = 1; // of this machine
  /// The launcher says how processes of MPI find each other.
  bool startsMpi = false;
  /// Where process 0 listens; see Listener. Empty where nothing says it.
  std::string address;
  /// Connects the processes instead of addresses; may be null.
  std::shared_ptr<MpiEndpoint> mpi;
  /// The same in all processes of a job, and in no other job.
  std::string job;
  /// What only the processes of the job know; may be empty where they meet at a
  /// Unix socket, which only takes processes of the same user.
  std::string secret;
  /// Called when this process has met the others; may be empty.
  std::function<void()> onMet;
};

/// Reads an environment variable; null where it is not set.
using Environment = std::function<const char *(const char *)>;

/// Looks for the variables of a launcher: `auto` takes the first that is found
/// of torchrun, mpirun (Open MPI, MPICH), srun and PP_PROCESS; `none` looks for
/// none. PP_MASTER=HOST:PORT says where process 0 listens. Throws Error(Usage)
/// where variables are missing or contradict each other.
Launch detectLaunch(std::string_view launcher, const Environment &environment);

/// The first host of Slurm's list: `node[03-07,9],other` is `node03`.
std::string firstHost(std::string_view list);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_LAUNCH_H
