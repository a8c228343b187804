//===- MockLink.cpp -------------------------------------------------------===//
#include "mock/MockLink.h"
#include "support/Error.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

using namespace pp::runtime;

namespace {

/// What the two ends share.
struct Pipe {
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  unsigned ends = 0;
  bool isAborted = false;
  const void *offered = nullptr; // the sender's data
  uint64_t offeredBytes = 0;
  std::string fault;
};

class MockLink : public Link {
public:
  explicit MockLink(std::shared_ptr<Pipe> pipe) : pipe(std::move(pipe)) {}

  bool isOpen() override {
    std::lock_guard<std::mutex> lock(pipe->mutex);
    return pipe->ends == 2 || pipe->isAborted;
  }
  void send(Stream &stream, const void *data, uint64_t bytes) override {
    stream.execute([pipe = pipe, data, bytes] {
      std::unique_lock<std::mutex> lock(pipe->mutex);
      pipe->offered = data;
      pipe->offeredBytes = bytes;
      pipe->changed.notify_all();
      pipe->changed.wait(lock,
                         [&] { return !pipe->offered || pipe->isAborted; });
      if (!pipe->fault.empty())
        failInternal("{}", pipe->fault);
    });
  }
  void receive(Stream &stream, void *data, uint64_t bytes) override {
    stream.execute([pipe = pipe, data, bytes] {
      std::unique_lock<std::mutex> lock(pipe->mutex);
      pipe->changed.wait(lock,
                         [&] { return pipe->offered || pipe->isAborted; });
      if (pipe->isAborted)
        return;
      if (pipe->offeredBytes != bytes)
        pipe->fault = fmt::format("mock link: {} bytes were sent, {} received",
                                  pipe->offeredBytes, bytes);
      else
        std::memcpy(data, pipe->offered, bytes);
      pipe->offered = nullptr;
      pipe->changed.notify_all();
      if (!pipe->fault.empty())
        failInternal("{}", pipe->fault);
    });
  }
  void abort() noexcept override {
    std::lock_guard<std::mutex> lock(pipe->mutex);
    pipe->isAborted = true;
    pipe->changed.notify_all();
  }

private:
  std::shared_ptr<Pipe> pipe;
};

std::mutex mutex;
std::map<std::string, std::shared_ptr<Pipe>>
    waiting; // by name; one end is here
uint64_t names = 0;

} // namespace

std::string pp::runtime::createMockLinkName() {
  std::lock_guard<std::mutex> lock(mutex);
  return fmt::format("mock link {}", ++names);
}

std::unique_ptr<Link> pp::runtime::openMockLink(const std::string &name,
                                                bool /*isSender*/) {
  std::shared_ptr<Pipe> pipe;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = waiting.find(name);
    if (it == waiting.end()) {
      pipe = std::make_shared<Pipe>();
      waiting.emplace(name, pipe);
    } else {
      pipe = std::move(it->second);
      waiting.erase(it);
    }
  }
  std::lock_guard<std::mutex> lock(pipe->mutex);
  ++pipe->ends;
  return std::make_unique<MockLink>(pipe);
}
