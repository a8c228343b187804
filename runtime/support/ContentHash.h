//===- ContentHash.h - A hash of what a file or an array holds ------------===//
//
// The compiler has it too: it writes hashes that programs check.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_CONTENTHASH_H
#define PP_RUNTIME_SUPPORT_CONTENTHASH_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pp::runtime {

/// XXH3 with 64 bits, which is as fast as memory is. The same bytes have the
/// same hash on every machine, in any number of pieces, so that it may be
/// written into files. It finds faults and mistakes; who wants two contents
/// with one hash can make them.
///
/// One thread at a time.
class ContentHash {
public:
  /// Throws std::bad_alloc.
  ContentHash();
  ~ContentHash();
  ContentHash(ContentHash &&) noexcept;
  ContentHash &operator=(ContentHash &&) noexcept;
  /// Goes on with `bytes` bytes; `data` may be null where there are none.
  void add(const void *data, uint64_t bytes);
  /// The length first, so that "ab", "c" and "a", "bc" differ.
  void addText(std::string_view text);
  /// The hash of all that was added; adding may go on.
  uint64_t get() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The hash of one range of bytes.
uint64_t hashContent(const void *data, uint64_t bytes);

/// 16 digits, as in files and messages.
std::string toHex(uint64_t hash);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_CONTENTHASH_H
