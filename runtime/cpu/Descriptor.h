//===- Descriptor.h - Text form of a library kernel -----------------------===//
#ifndef PP_RUNTIME_CPU_DESCRIPTOR_H
#define PP_RUNTIME_CPU_DESCRIPTOR_H

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// A fault of a descriptor; the message names the key.
class DescriptorError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `<kind> key=value ...`, split and with its values checked on access.
class Descriptor {
public:
  using Dims = std::vector<int64_t>;

  /// Throws DescriptorError for text that is not `<kind> key=value ...` or
  /// repeats a key.
  explicit Descriptor(std::string_view text);

  const std::string &getKind() const { return kind; }
  bool has(const std::string &key) const { return values.count(key) != 0; }

  const std::string &getText(const std::string &key) { return get(key); }

  /// Integers joined by `x`, each at least `minimum` and below 2^31; between 1
  /// and 4096 of them.
  Dims getDims(const std::string &key, int64_t minimum = 1);
  /// As above, and exactly `count` of them.
  Dims getDims(const std::string &key, size_t count, int64_t minimum);
  int64_t getInteger(const std::string &key, int64_t minimum, int64_t maximum);
  float getFloat(const std::string &key);

  /// Throws when a key was given that nobody asked for.
  void checkAllUsed() const;

private:
  const std::string &get(const std::string &key);

  std::string kind;
  std::map<std::string, std::string> values;
  std::set<std::string> used;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_DESCRIPTOR_H
