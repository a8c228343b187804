//===- Cores.h - On which cores threads run ---------------------*- C++ -*-===//
#ifndef PP_RUNTIME_SUPPORT_CORES_H
#define PP_RUNTIME_SUPPORT_CORES_H

#include <string>
#include <vector>

namespace pp::runtime {

/// Numbers of hardware threads, as the system counts them.
using Cores = std::vector<unsigned>;

/// Those that the calling thread may run on.
Cores usableCores();

/// Brings them into the order in which threads take them: first one hardware
/// thread of each core, node by node of the memory, then the others. So
/// neighbours are near each other, and no core computes for two while another
/// is idle. `system` is the folder with the topology.
Cores nearestFirst(Cores cores,
                   const std::string &system = "/sys/devices/system");

/// Lets the calling thread run on nothing else; nothing happens for an empty
/// list. Throws Error(IO).
void bindThread(const Cores &cores);

/// The same for a while: memory that the thread touches first lies near them.
class ScopedBinding {
public:
  explicit ScopedBinding(const Cores &cores);
  ~ScopedBinding();
  ScopedBinding(const ScopedBinding &) = delete;
  ScopedBinding &operator=(const ScopedBinding &) = delete;

private:
  Cores before;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_CORES_H
