//===- Launch.cpp ---------------------------------------------------------===//
#include "process/Launch.h"
#include "support/Error.h"
#include "support/Hash.h"

#include <charconv>
#include <optional>
#include <unistd.h>

using namespace pp::runtime;

namespace {
/// The variables of one launcher.
struct Variables {
  const char *launcher;
  /// Set if, and only if, this launcher started the process.
  const char *sign;
  const char *process, *processes, *localProcess, *localProcesses;
};
} // namespace

// Ours comes first, because somebody has set it on purpose; torchrun may itself
// have been started by one of the others.
static constexpr Variables known[] = {
    {"env", "PP_PROCESS", "PP_PROCESS", "PP_PROCESSES", "PP_LOCAL_PROCESS",
     "PP_LOCAL_PROCESSES"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK",
     "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS"},
    // Not SLURM_PROCID: a batch script has it too.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

static std::optional<unsigned> parse(const char *text) {
  std::string_view view = text ? text : "";
  // Slurm: 4(x2),1 is 4 on each of 2 machines and 1 on another.
  view = view.substr(0, view.find_first_of("(,"));
  unsigned value = 0;
  auto [end, code] =
      std::from_chars(view.data(), view.data() + view.size(), value);
  if (view.empty() || code != std::errc() || end != view.data() + view.size())
    return std::nullopt;
  return value;
}

std::string pp::runtime::firstHost(std::string_view list) {
  size_t open = list.find('['), comma = list.find(',');
  if (open == std::string_view::npos || comma < open)
    return std::string(list.substr(0, comma));
  std::string_view numbers = list.substr(open + 1);
  return std::string(list.substr(0, open)) +
         std::string(numbers.substr(0, numbers.find_first_of(",-]")));
}

/// What distinguishes the job from others on the machine.
static std::string jobOf(const Launch &launch, const Environment &environment) {
  auto text = [&](const char *name) {
    const char *value = environment(name);
    return std::string(value ? value : "");
  };
  if (!text("PP_JOB").empty())
    return text("PP_JOB");
  if (launch.launcher == "torchrun")
    // A restart must not meet what is left of the first try.
    return fmt::format("torchrun-{}-{}-{}", text("TORCHELASTIC_RUN_ID"),
                       text("MASTER_PORT"), text("TORCHELASTIC_RESTART_COUNT"));
  if (launch.launcher == "srun")
    return fmt::format("srun-{}.{}", text("SLURM_JOB_ID"),
                       text("SLURM_STEP_ID"));
  if (!text("PMIX_NAMESPACE").empty())
    return "mpirun-" + text("PMIX_NAMESPACE");
  // By hand, processes may come from any shell; those of mpirun have one parent
  // on each machine.
  if (launch.launcher == "env" || launch.localProcesses != launch.processes ||
      environment("PP_MASTER"))
    return launch.launcher;
  return fmt::format("{}-{}", launch.launcher, getppid());
}

/// Where process 0 listens; empty: nothing says it.
static std::string addressOf(const Launch &launch,
                             const Environment &environment) {
  if (const char *master = environment("PP_MASTER"))
    return master;
  if (launch.localProcesses == launch.processes)
    return fmt::format("unix:pp-mlir-{}-{:x}", geteuid(), hashText(launch.job));
  if (launch.launcher == "torchrun") {
    const char *host = environment("MASTER_ADDR");
    std::optional<unsigned> port = parse(environment("MASTER_PORT"));
    // torchrun itself listens at the port.
    if (host && port)
      return fmt::format("{}:{}", host, *port + 1);
  }
  if (launch.launcher == "srun") {
    const char *hosts = environment("SLURM_STEP_NODELIST");
    if (hosts)
      return fmt::format("{}:{}", firstHost(hosts),
                         20000 + hashText(launch.job) % 20000);
  }
  return "";
}

Launch pp::runtime::detectLaunch(std::string_view launcher,
                                 const Environment &environment) {
  if (launcher == "none")
    return {};
  for (const Variables &entry : known) {
    if ((launcher != "auto" && launcher != entry.launcher) ||
        !environment(entry.sign))
      continue;
    Launch launch;
    launch.launcher = entry.launcher;
    auto read = [&](const char *name, std::optional<unsigned> otherwise) {
      std::optional<unsigned> value = parse(environment(name));
      if (!value && environment(name))
        failUsage("{}: {} is '{}', which is not a number", entry.launcher, name,
                  environment(name));
      if (!value && !otherwise)
        failUsage("{}: {} is not set", entry.launcher, name);
      return value ? *value : *otherwise;
    };
    launch.process = read(entry.process, {});
    launch.processes = read(entry.processes, {});
    // Without a word about machines, there is one.
    launch.localProcess = read(entry.localProcess, launch.process);
    launch.localProcesses = read(entry.localProcesses, launch.processes);
    if (launch.process >= launch.processes)
      failUsage("{}: {} is {}, but {} is {}", entry.launcher, entry.process,
                launch.process, entry.processes, launch.processes);
    if (launch.processes == 1)
      return {};
    launch.startsMpi = entry.launcher == std::string_view("mpirun") ||
                       (entry.launcher == std::string_view("srun") &&
                        (environment("PMIX_RANK") || environment("PMI_FD")));
    launch.job = jobOf(launch, environment);
    launch.address = addressOf(launch, environment);
    return launch;
  }
  if (launcher != "auto")
    failUsage("--launcher {}: its variables are not set", launcher);
  return {};
}
