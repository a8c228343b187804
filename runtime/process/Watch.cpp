//===- Watch.cpp ----------------------------------------------------------===//
#include "process/Watch.h"

#include <poll.h>

using namespace pp::runtime;

void Watch::add(unsigned process, const Socket &socket) {
  if (socket)
    descriptors.emplace_back(process, socket.get());
}

void Watch::ask(std::vector<pollfd> &entries) const {
  // Not POLLIN: values may have come, and wait to be read.
  for (const auto &[process, descriptor] : descriptors)
    entries.push_back({descriptor, POLLRDHUP, 0});
}

void Watch::check(const pollfd *answers) const {
  for (size_t i = 0; i < descriptors.size(); ++i)
    if (answers[i].revents)
      throw ProcessGone(descriptors[i].first);
}

void Watch::check() const {
  std::vector<pollfd> entries;
  ask(entries);
  if (!entries.empty() && poll(entries.data(), entries.size(), 0) > 0)
    check(entries.data());
}
