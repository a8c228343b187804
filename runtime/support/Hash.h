//===- Hash.h - A hash of bytes -------------------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_HASH_H
#define PP_RUNTIME_SUPPORT_HASH_H

#include <cstdint>
#include <string_view>

namespace pp::runtime {

constexpr uint64_t emptyHash = 0xcbf29ce484222325;

/// FNV-1a with 64 bits; `hash` is that of what comes before. Finds faults, not
/// attacks.
inline uint64_t hashBytes(const void *data, uint64_t bytes,
                          uint64_t hash = emptyHash) {
  const unsigned char *next = static_cast<const unsigned char *>(data);
  for (uint64_t i = 0; i < bytes; ++i)
    hash = (hash ^ next[i]) * 0x100000001b3;
  return hash;
}

inline uint64_t hashText(std::string_view text, uint64_t hash = emptyHash) {
  return hashBytes(text.data(), text.size(), hash);
}

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_HASH_H
