//===- KeptShares.cpp -----------------------------------------------------===//
#include "device/KeptShares.h"

#include <mutex>
#include <vector>

using namespace pp::runtime;

namespace {
struct KeptShares {
  std::mutex mutex;
  std::vector<DeviceMemory> memories;
  std::vector<std::unique_ptr<Event>> events;

  /// Never destroyed: devices may be gone by then.
  static KeptShares &get() {
    static auto *shares = new KeptShares;
    return *shares;
  }
};
} // namespace

void pp::runtime::keepUntilTheEnd(DeviceMemory &memory) {
  KeptShares &kept = KeptShares::get();
  DeviceMemory address(memory.get(), [](char *) {});
  std::lock_guard<std::mutex> lock(kept.mutex);
  kept.memories.push_back(std::move(memory));
  memory = std::move(address);
}

void pp::runtime::keepUntilTheEnd(std::unique_ptr<Event> event) {
  KeptShares &kept = KeptShares::get();
  std::lock_guard<std::mutex> lock(kept.mutex);
  kept.events.push_back(std::move(event));
}
