//===- FakeMpi.cpp --------------------------------------------------------===//
//
// Messages are matched when both sides have started them, and copied when the
// receiver tests, as MPI does where the sender's memory can be read.
//
//===----------------------------------------------------------------------===//
#include "FakeMpi.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace pp::runtime;

namespace {

struct Send {
  pp_mpi_request request; // 0: nobody waits for it
  uint32_t from, tag;
  const char *data;
  uint64_t bytes;
  std::vector<char> copy; // of an eager one
};
struct Receive {
  pp_mpi_request request;
  uint32_t from, tag;
  char *data;
  uint64_t bytes;
};

/// What all processes of a job share.
struct World {
  FakeMpi options;
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t processes = 0, joined = 0, left = 0;
  std::map<uint32_t, std::deque<Send>> sends;       // by receiver
  std::map<uint32_t, std::deque<Receive>> receives; // by receiver
  std::map<pp_mpi_request, pp_mpi_ended> ended;
  std::set<pp_mpi_request> cancelled;
  pp_mpi_request next = 1;
};

} // namespace

struct pp_mpi_job {
  std::shared_ptr<World> world;
  uint32_t process;
  std::thread::id owner;
};

namespace {

/// As long as the program: a thread may wait in openJob() for ever, and whoever
/// fails leaves without closeJob().
struct Fake {
  std::mutex mutex;
  FakeMpi nextOptions;
  std::map<std::string, std::weak_ptr<World>> worlds;
  std::deque<pp_mpi_job> jobs; // those that are closed have no world
};

Fake &fake() {
  static Fake &fake = *new Fake;
  return fake;
}

} // namespace

static void checkThread(const pp_mpi_job *job) {
  if (job->world->options.threads || job->owner == std::this_thread::get_id())
    return;
  std::fputs("the fake MPI was called by a thread that must not\n", stderr);
  std::abort();
}

static int32_t fail(pp_mpi_error *error, const char *text) {
  std::snprintf(error->text, sizeof(error->text), "%s", text);
  return 1;
}

static int32_t openJob(const char *name, uint32_t process, uint32_t processes,
                       pp_mpi_job **job, pp_mpi_facts *facts, pp_mpi_error *) {
  std::shared_ptr<World> world;
  {
    std::lock_guard<std::mutex> lock(fake().mutex);
    world = fake().worlds[name].lock();
    if (!world) {
      world = std::make_shared<World>();
      world->options = fake().nextOptions;
      fake().worlds[name] = world;
    }
  }
  const FakeMpi &options = world->options;
  {
    std::unique_lock<std::mutex> lock(world->mutex);
    world->processes = processes;
    ++world->joined;
    world->changed.notify_all();
    world->changed.wait(lock, [&] { return world->joined == processes; });
  }
  {
    std::lock_guard<std::mutex> lock(fake().mutex);
    *job =
        &fake().jobs.emplace_back(world, process, std::this_thread::get_id());
  }
  *facts = {
      process,           options.processes ? options.processes : processes,
      options.mostTag,   options.threads,
      options.mostBytes, options.pieceBytes,
      "a fake"};
  return 0;
}

static int32_t closeJob(pp_mpi_job *job, pp_mpi_error *) {
  checkThread(job);
  std::shared_ptr<World> world = std::move(job->world);
  std::unique_lock<std::mutex> lock(world->mutex);
  ++world->left;
  world->changed.notify_all();
  world->changed.wait(lock, [&] { return world->left == world->processes; });
  return 0;
}

static int32_t send(pp_mpi_job *job, uint32_t peer, uint32_t tag,
                    const void *data, uint64_t bytes, uint32_t isMatched,
                    pp_mpi_request *request, pp_mpi_error *error) {
  checkThread(job);
  World &world = *job->world;
  std::lock_guard<std::mutex> lock(world.mutex);
  if (peer >= world.processes || tag > world.options.mostTag ||
      bytes > world.options.mostBytes)
    return fail(error, "no such message can be sent");
  if (peer == world.options.broken ||
      (tag != 0 && peer == world.options.brokenValues))
    return fail(error, "the wire is cut");
  *request = world.next++;
  Send &entry = world.sends[peer].emplace_back();
  entry.from = job->process;
  entry.tag = tag;
  entry.bytes = bytes;
  if (bytes <= world.options.eagerBytes && !isMatched) {
    entry.copy.assign(static_cast<const char *>(data),
                      static_cast<const char *>(data) + bytes);
    entry.request = 0;
    world.ended[*request] = {0, peer, bytes, 0, 0};
  } else {
    entry.data = static_cast<const char *>(data);
    entry.request = *request;
  }
  return 0;
}

static int32_t receive(pp_mpi_job *job, uint32_t peer, uint32_t tag, void *data,
                       uint64_t bytes, pp_mpi_request *request,
                       pp_mpi_error *error) {
  checkThread(job);
  World &world = *job->world;
  std::lock_guard<std::mutex> lock(world.mutex);
  if ((peer >= world.processes && peer != PP_MPI_ANY) ||
      bytes > world.options.mostBytes)
    return fail(error, "no such message can be received");
  *request = world.next++;
  world.receives[job->process].push_back(
      {*request, peer, tag, static_cast<char *>(data), bytes});
  return 0;
}

/// The first message that fits the receive.
static std::deque<Send>::iterator match(std::deque<Send> &sends,
                                        const Receive &receive) {
  return std::find_if(sends.begin(), sends.end(), [&](const Send &send) {
    return send.tag == receive.tag &&
           (receive.from == PP_MPI_ANY || receive.from == send.from);
  });
}

static int32_t test(pp_mpi_job *job, uint32_t count,
                    const pp_mpi_request *requests, pp_mpi_ended *ended,
                    uint32_t *ended_count, pp_mpi_error *error) {
  checkThread(job);
  World &world = *job->world;
  std::lock_guard<std::mutex> lock(world.mutex);
  std::deque<Send> &sends = world.sends[job->process];
  std::deque<Receive> &receives = world.receives[job->process];
  for (auto it = receives.begin(); it != receives.end();) {
    auto sent = match(sends, *it);
    if (sent == sends.end()) {
      if (!world.cancelled.erase(it->request)) {
        ++it;
        continue;
      }
      world.ended[it->request] = {0, 0, 0, 0, 0};
      it = receives.erase(it);
      continue;
    }
    pp_mpi_ended end{0, sent->from, sent->bytes, sent->bytes > it->bytes, 0};
    if (!end.is_failed)
      std::memcpy(it->data, sent->request ? sent->data : sent->copy.data(),
                  sent->bytes);
    if (sent->request)
      world.ended[sent->request] = {0, job->process, sent->bytes, 0, 0};
    world.ended[it->request] = end;
    sends.erase(sent);
    it = receives.erase(it);
  }
  *ended_count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    auto it = world.ended.find(requests[i]);
    if (it == world.ended.end())
      continue;
    pp_mpi_ended &entry = ended[(*ended_count)++] = it->second;
    entry.index = i;
    if (entry.is_failed)
      fail(error, "a message is longer than its receive");
    world.ended.erase(it);
  }
  return 0;
}

static int32_t cancel(pp_mpi_job *job, pp_mpi_request request, pp_mpi_error *) {
  checkThread(job);
  std::lock_guard<std::mutex> lock(job->world->mutex);
  World &world = *job->world;
  // A send, unless it has gone.
  for (auto &[receiver, sends] : world.sends)
    if (std::erase_if(
            sends, [&](const Send &send) { return send.request == request; }))
      world.ended[request] = {0, receiver, 0, 0, 0};
  // A receive, when its process tests.
  for (const Receive &receive : world.receives[job->process])
    if (receive.request == request)
      world.cancelled.insert(request);
  return 0;
}

const pp_mpi_table &pp::runtime::fakeMpi(const FakeMpi &options) {
  static const pp_mpi_table table = {
      PP_MPI_ABI_VERSION, 0, openJob, closeJob, send, receive, test, cancel};
  std::lock_guard<std::mutex> lock(fake().mutex);
  fake().nextOptions = options;
  return table;
}
