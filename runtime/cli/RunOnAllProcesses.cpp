//===- RunOnAllProcesses.cpp ----------------------------------------------===//
#include "cli/RunOnAllProcesses.h"
#include "process/Fork.h"
#include "process/MpiEndpoint.h"
#include "process/Placement.h"
#include "process/Secret.h"
#include "support/Hash.h"
#include "support/Print.h"
#include "support/Thread.h"
#include "transport/TransportRegistry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace pp::runtime;

/// Everything in the binary that has to be the same.
static uint64_t hashProgram(const pp_binary &binary) {
  uint64_t hash = emptyHash;
  std::vector<const pp_pipeline *> programs{binary.training, binary.inference};
  for (uint64_t i = 0; i < binary.bucket_count; ++i)
    programs.insert(programs.end(),
                    {binary.buckets[i].training, binary.buckets[i].inference});
  for (const pp_pipeline *program : programs) {
    if (!program)
      continue;
    hash = hashText({program->plan, program->plan_size}, hash);
    if (const pp_device_code *code = program->device_code) {
      hash = hashText({code->binary ? code->binary : "",
                       code->binary ? code->binary_size : 0},
                      hash);
      hash = hashText({code->assembly, code->assembly_size}, hash);
    }
  }
  return hash;
}

namespace {
/// Prints the error that a job ends with, once.
class Teller {
public:
  void tell(const std::string &text) {
    if (!hasTold->exchange(true))
      printMessage("error: {}\n", text);
  }

private:
  // Whoever ends the process may outlive what began the job.
  std::shared_ptr<std::atomic<bool>> hasTold =
      std::make_shared<std::atomic<bool>>(false);
};
} // namespace

/// Ends this process some time after another has failed: a stream may wait for
/// an event that nobody will reach any more, and then nothing else ends it. The
/// first process tells of it before the others end.
static void endSoon(const std::exception_ptr &exception, bool isFirst,
                    Teller teller) {
  auto end = [exception, isFirst, teller]() mutable {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(isFirst ? 1200 : 1500));
    int code = static_cast<int>(ErrorKind::Internal);
    try {
      std::rethrow_exception(exception);
    } catch (const RemoteFailure &error) {
      code = error.getExitCode();
      if (!error.isTold())
        teller.tell(error.what());
    } catch (const std::exception &error) {
      teller.tell(error.what());
    }
    std::fflush(nullptr);
    std::_Exit(code);
  };
  try {
    startThread("the end", end).detach();
  } catch (const std::exception &) {
    end();
  }
}

/// Opens MPI where values, and what the processes tell each other, shall go
/// through it. Between machines it is what processors have by default.
static void openMpi(const RunOptions &options, const std::string &device,
                    Launch &launch) {
  bool isChosen = options.transport == "mpi";
  bool isAutomatic = options.transport == "auto" && launch.startsMpi &&
                     launch.localProcesses < launch.processes &&
                     device == "cpu";
  if (launch.processes == 1 || (!isChosen && !isAutomatic))
    return;
  if (launch.launcher != "mpirun" && launch.launcher != "srun")
    failUsage("--transport mpi: mpirun or srun has to start the processes, not "
              "{}",
              launch.launcher);
  const pp_mpi_table *table = nullptr;
  try {
    table = &MpiEndpoint::loadPlugin();
  } catch (const Error &) {
    if (isChosen)
      throw;
    return; // sockets
  }
  launch.mpi =
      std::make_shared<MpiEndpoint>(*table, launch, options.joinTimeout);
}

/// As a launch, a secret and all, or the exit code of those that were started.
static Forked start(const RunOptions &options,
                    const std::vector<const pp_pipeline *> &programs) {
  auto read = [](const char *name) { return std::getenv(name); };
  Forked result;
  result.launch = detectLaunch(options.launcher, read);
  Launch &launch = result.launch;
  if (options.processes > 1 && !launch.launcher.empty())
    failUsage("--processes {}: {} has already started {} processes",
              options.processes, launch.launcher, launch.processes);
  try {
    unsigned processes = std::max(options.processes, launch.processes);
    for (const pp_pipeline *program : programs)
      if (processes > 1)
        Placement(Plan::parse({program->plan, program->plan_size}), 0,
                  processes);
  } catch (const Error &error) {
    // A launcher gives all the same number. By hand, this may be the only one.
    if (launch.process == 0 || launch.launcher == "env")
      throw;
    throw RemoteFailure(error.getKind(), error.what(), /*isTold=*/true);
  }
  if (options.processes > 1 && options.transport == "mpi")
    failUsage("--transport mpi: mpirun or srun has to start the processes, not "
              "--processes");
  if (options.processes > 1)
    return forkProcesses(options.processes);
  if (launch.processes > 1)
    launch.secret = readSecret(options.secretFile, read("PP_SECRET"));
  try {
    std::string device = options.device;
    if (device.empty() && !programs.empty())
      device = Plan::parse({programs[0]->plan, programs[0]->plan_size}).target;
    openMpi(options, device.substr(0, device.find(':')), launch);
  } catch (const Error &error) {
    // Machines may differ, the processes of one do not.
    if (launch.localProcess == 0)
      throw;
    throw RemoteFailure(error.getKind(), error.what(), /*isTold=*/true);
  }
  return result;
}

/// How long a process may give no sign of life, which its work cannot delay.
static double silenceSeconds(const RunOptions &options) {
  double seconds = options.watchdog.value_or(30);
  return seconds == 0 ? 0 : std::max(seconds, 2.0);
}

/// Whether the others are killed as soon as one process has failed.
static bool isEager(const Launch &launch) {
  return launch.launcher == "mpirun" || launch.launcher == "srun" ||
         launch.launcher == "torchrun";
}

/// Meets the others. What is wrong is told before anybody has ended.
static std::unique_ptr<ProcessGroup> meet(const pp_binary &binary,
                                          const RunOptions &options,
                                          const Launch &launch,
                                          const std::string &agreed) {
  const TransportKind *transport = findTransport(options.transport);
  std::string device = options.device.substr(0, options.device.find(':'));
  try {
    return std::make_unique<ProcessGroup>(
        launch,
        std::vector<Agreement>{
            {"program", hashProgram(binary)},
            {"set of options",
             hashText(fmt::format("{} device {} transport {}", agreed, device,
                                  options.transport))}},
        options.joinTimeout, options.transport,
        !transport || transport->sharesMemory, silenceSeconds(options));
  } catch (const RemoteFailure &error) {
    if (error.isTold() && isEager(launch))
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw;
  } catch (const Error &error) {
    // Not after MPI has been left.
    printMessage("error: {}\n", error.what());
    throw RemoteFailure(error.getKind(), error.what(), /*isTold=*/true);
  }
}

int pp::runtime::runOnAllProcesses(
    const pp_binary &binary, const RunOptions &options,
    const std::vector<const pp_pipeline *> &programs, const std::string &agreed,
    const std::function<int(ProcessGroup &)> &work) {
  Forked forked = start(options, programs);
  if (forked.exitCode)
    return *forked.exitCode;
  const Launch &launch = forked.launch;
  std::unique_ptr<ProcessGroup> met = meet(binary, options, launch, agreed);
  ProcessGroup &group = *met;
  Teller teller;
  /// Tells the user, if nobody else does, before this process is gone for the
  /// others, and then lets the first process do so.
  auto end = [&](const Error &error, bool isTold) {
    if (!isTold)
      teller.tell(error.what());
    else if (isEager(launch))
      group.awaitFirst(std::chrono::milliseconds(1500));
    return RemoteFailure(error.getKind(), error.what(), /*isTold=*/true);
  };
  ProcessGroup::HandlerHandle handle =
      group.onFailure([&](const std::exception_ptr &exception) {
        endSoon(exception, group.isFirst(), teller);
      });
  try {
    int code = work(group);
    group.finish();
    return code;
  } catch (const RemoteFailure &error) {
    throw end(error, error.isTold());
  } catch (const Error &error) {
    group.fail(error);
    // What fails in all processes is told once.
    throw end(error, !group.isFirst());
  } catch (const std::exception &error) {
    group.fail(Error(ErrorKind::Internal, error.what()));
    throw;
  }
}
