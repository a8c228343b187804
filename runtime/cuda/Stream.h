//===- Stream.h - Streams, events and graphs ------------------------------===//
#ifndef PP_RUNTIME_CUDA_STREAM_H
#define PP_RUNTIME_CUDA_STREAM_H

#include "DeferredHostWork.h"

#include <memory>

namespace pp::cuda {

class Event {
public:
  explicit Event(Context &context);
  /// One that other processes of the machine may open.
  Event(Context &context, CUipcEventHandle &handle);
  /// Another process's.
  Event(Context &context, const CUipcEventHandle &handle);
  ~Event();
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  void synchronize();
  bool isReached();

private:
  friend class Stream;
  Context &context;
  CUevent handle = nullptr;
  // Of the stream that it was recorded on last.
  std::shared_ptr<DeferredHostWork> deferred;
  uint64_t position = 0;
};

class Graph {
public:
  /// Takes the graph over. One without nodes launches nothing.
  Graph(Context &context, CUgraph graph, CUstream stream);
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

private:
  friend class Stream;
  Context &context;
  CUgraphExec executable = nullptr;
};

/// See Stream in runtime/device/Device.h.
class Stream {
public:
  explicit Stream(Context &context);
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  void copy(void *to, const void *from, uint64_t bytes);
  void clear(void *to, uint64_t bytes);
  void record(Event &event);
  void wait(Event &event);
  void timestamp(int64_t &to);
  void hold();
  void release() noexcept;
  void count(uint64_t *counter, uint64_t value);
  void beginCapture();
  std::unique_ptr<Graph> endCapture();
  void launch(Graph &graph);

  /// Makes it the one that kernels of the calling thread run on.
  void enter();
  static void leave();
  /// Throws Failure(Internal) where the thread has entered none.
  static CUstream getCurrent();
  CUstream getHandle() const { return handle; }

private:
  void copyPlainly(void *to, const void *from, uint64_t bytes);

  Context &context;
  CUstream handle = nullptr;
  std::shared_ptr<DeferredHostWork> deferred;
  bool isCapturing = false;
  // Pinned: the stream waits until `*releases` is `holds`.
  uint64_t *releases = nullptr;
  uint64_t holds = 0;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_STREAM_H
