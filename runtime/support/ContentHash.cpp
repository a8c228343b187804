//===- ContentHash.cpp ----------------------------------------------------===//
#include "support/ContentHash.h"

// The whole library is in its header.
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace pp::runtime;

struct ContentHash::State {
  XXH3_state_t value; // aligned by its type
};

ContentHash::ContentHash() : state(std::make_unique<State>()) {
  XXH3_64bits_reset(&state->value);
}

ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash &&) noexcept = default;
ContentHash &ContentHash::operator=(ContentHash &&) noexcept = default;

void ContentHash::add(const void *data, uint64_t bytes) {
  if (bytes)
    XXH3_64bits_update(&state->value, data, bytes);
}

void ContentHash::addText(std::string_view text) {
  uint64_t bytes = text.size();
  add(&bytes, sizeof(bytes));
  add(text.data(), bytes);
}

uint64_t ContentHash::get() const { return XXH3_64bits_digest(&state->value); }

uint64_t pp::runtime::hashContent(const void *data, uint64_t bytes) {
  return XXH3_64bits(bytes ? data : nullptr, bytes);
}

std::string pp::runtime::toHex(uint64_t hash) {
  std::string digits(16, '0');
  for (size_t i = digits.size(); i-- > 0; hash >>= 4)
    digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}
