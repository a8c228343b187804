//===- Npy.cpp - The .npy format ------------------------------------------===//
#include "formats/Npy.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <new>
#include <set>

using namespace pp::runtime;

namespace {

struct NpyType {
  const char *name;
  DataType type;
};
constexpr NpyType npyTypes[] = {
    {"<f4", DataType::F32},
    {"<f8", DataType::F64},
    {"<i8", DataType::I64},
    {"<i4", DataType::I32},
    {"|i1", DataType::I8},
    {"|u1", DataType::U8},
    {"|b1", DataType::I1},
    {"<i2", DataType::I16},
    {"<u2", DataType::U16},
    {"<u4", DataType::U32},
    {"<u8", DataType::U64},
    {"<f2", DataType::F16},
    // Two bytes without a meaning: how NumPy writes what ml_dtypes adds to it.
    {"<V2", DataType::BF16},
    {"|V2", DataType::BF16}};

/// Reads the Python literal `{'descr': '<f4', 'fortran_order': False, 'shape':
/// (8, 3), }`, and nothing else of Python.
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string &what)
      : text(text), what(what) {}

  NpyHeader parse() {
    NpyHeader header{};
    std::set<std::string> seen;
    expect('{');
    while (!accept('}')) {
      std::string key = parseString();
      expect(':');
      if (!seen.insert(key).second)
        fail("key '" + key + "' twice");
      if (key == "descr")
        header.type = parseType();
      else if (key == "fortran_order")
        parseOrder();
      else if (key == "shape")
        header.shape = parseShape();
      else
        fail("unknown key '" + key + "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skipSpace();
    if (position != text.size() || seen.size() != 3)
      fail("expected the keys descr, fortran_order and shape");
    return header;
  }

private:
  [[noreturn]] void fail(const std::string &reason) {
    failInput("{}: .npy header: {}", what, reason);
  }
  void skipSpace() {
    while (position < text.size() &&
           (text[position] == ' ' || text[position] == '\n'))
      ++position;
  }
  bool accept(char c) {
    skipSpace();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      fail(fmt::format("expected '{}' at byte {}", c, position));
  }
  bool acceptWord(std::string_view word) {
    skipSpace();
    if (text.substr(position, word.size()) != word)
      return false;
    position += word.size();
    return true;
  }
  std::string parseString() {
    char quote = accept('"') ? '"' : '\'';
    if (quote == '\'')
      expect('\'');
    size_t end = text.find(quote, position);
    if (end == std::string_view::npos || end - position > 64)
      fail("unterminated string");
    std::string result(text.substr(position, end - position));
    position = end + 1;
    return result;
  }
  DataType parseType() {
    skipSpace();
    if (position < text.size() && text[position] == '[')
      fail("structured dtypes are not supported");
    std::string name = parseString();
    for (const NpyType &entry : npyTypes)
      if (name == entry.name)
        return entry.type;
    if (name.find('O') != std::string::npos)
      fail("object arrays (pickle) are never read");
    if (!name.empty() && name[0] == '>')
      fail("'" + name + "' is big-endian; save it with little-endian numbers");
    fail("dtype '" + name + "' is not supported");
  }
  void parseOrder() {
    if (acceptWord("True"))
      fail("Fortran order is not supported; save numpy.ascontiguousarray(x)");
    if (!acceptWord("False"))
      fail("fortran_order is neither True nor False");
  }
  Shape parseShape() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skipSpace();
      int64_t value = 0;
      size_t begin = position;
      while (position < text.size() &&
             std::isdigit(static_cast<unsigned char>(text[position]))) {
        value = value * 10 + (text[position++] - '0');
        if (position - begin > 15)
          fail("dimension is too large");
      }
      if (position == begin || shape.size() == 16)
        fail("malformed shape");
      shape.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text;
  const std::string &what;
  size_t position = 0;
};

} // namespace

NpyHeader pp::runtime::parseNpyHeader(std::string_view prefix,
                                      const std::string &what) {
  if (prefix.size() < 10 || prefix.substr(0, 6) != "\x93NUMPY")
    failInput("{}: not an .npy file", what);
  unsigned major = static_cast<unsigned char>(prefix[6]);
  if (major < 1 || major > 3)
    failInput("{}: .npy version {} is not supported", what, major);
  auto byte = [&](size_t i) {
    return uint64_t(static_cast<unsigned char>(prefix[i]));
  };
  uint64_t start = major == 1 ? 10 : 12;
  if (prefix.size() < start)
    failInput("{}: .npy header: truncated", what);
  uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (length > 65536)
    failInput("{}: .npy header: {} bytes are too many", what, length);
  if (prefix.size() < start + length)
    failInput("{}: .npy header: truncated", what);
  NpyHeader header = HeaderParser(prefix.substr(start, length), what).parse();
  auto count = elementCount(header.shape);
  if (!count || *count > maxArrayBytes / sizeOf(header.type))
    failInput("{}: array {} is too large", what, toString(header.shape));
  header.dataOffset = start + length;
  header.dataBytes = *count * sizeOf(header.type);
  return header;
}

Array pp::runtime::readNpy(const std::string &path) {
  auto file = std::make_shared<const MappedFile>(path);
  NpyHeader header = parseNpyHeader(file->view(), "'" + path + "'");
  if (file->size() != header.dataOffset + header.dataBytes)
    failInput("'{}': has {} bytes, but its header describes {}", path,
              file->size(), header.dataOffset + header.dataBytes);
  return {header.type, header.shape,
          ArrayData(std::move(file), header.dataOffset)};
}

std::string pp::runtime::formatNpyHeader(DataType type, const Shape &shape) {
  const char *name = "";
  for (const NpyType &entry : npyTypes)
    if (entry.type == type && !*name)
      name = entry.name;
  std::string dims;
  for (int64_t dim : shape)
    dims += std::to_string(dim) + ",";
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", name, dims);
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}
