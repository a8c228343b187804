//===- Npz.cpp - Zip archives of .npy files -------------------------------===//
#include "formats/Npy.h"
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <new>

using namespace pp::runtime;

namespace {
struct Discard {
  void operator()(zip_t *archive) const { zip_discard(archive); }
};
struct Close {
  void operator()(zip_file_t *file) const { zip_fclose(file); }
};
} // namespace

/// Reads up to `bytes` more; fewer only at the end of the entry.
static uint64_t readSome(zip_file_t *file, char *target, uint64_t bytes,
                         const std::string &what) {
  uint64_t done = 0;
  while (done < bytes) {
    zip_int64_t count = zip_fread(file, target + done, bytes - done);
    if (count < 0)
      failInput("{}: damaged zip entry: {}", what, zip_file_strerror(file));
    if (count == 0)
      break;
    done += count;
  }
  return done;
}

static Array readEntry(zip_t *archive, zip_uint64_t index,
                       const std::string &what) {
  zip_stat_t status;
  if (zip_stat_index(archive, index, 0, &status) != 0)
    failInput("{}: {}", what, zip_strerror(archive));
  if (status.encryption_method != ZIP_EM_NONE)
    failInput("{}: the entry is encrypted", what);
  // Deflate cannot compress better than this: a greater ratio is a lie.
  if ((status.valid & ZIP_STAT_COMP_SIZE) && (status.valid & ZIP_STAT_SIZE) &&
      status.size / 1040 > status.comp_size)
    failInput("{}: {} bytes from {} cannot be (zip bomb?)", what, status.size,
              status.comp_size);
  std::unique_ptr<zip_file_t, Close> file(zip_fopen_index(archive, index, 0));
  if (!file)
    failInput("{}: {}", what, zip_strerror(archive));
  constexpr uint64_t prefixBytes = 12 + 65536;
  std::vector<char> data(prefixBytes);
  data.resize(readSome(file.get(), data.data(), prefixBytes, what));
  NpyHeader header = parseNpyHeader({data.data(), data.size()}, what);
  uint64_t total = header.dataOffset + header.dataBytes;
  if ((status.valid & ZIP_STAT_SIZE) && status.size != total)
    failInput("{}: has {} bytes, but its header describes {}", what,
              status.size, total);
  // Grow as data arrives, so that a header alone cannot take memory.
  constexpr uint64_t chunk = uint64_t(64) << 20;
  while (data.size() < total) {
    uint64_t old = data.size(), wanted = std::min(chunk, total - old);
    try {
      data.resize(old + wanted);
    } catch (const std::bad_alloc &) {
      throw Error(
          ErrorKind::IO,
          fmt::format("{}: too little memory for its {} bytes", what, total));
    }
    if (readSome(file.get(), data.data() + old, wanted, what) != wanted)
      failInput("{}: the data ends early", what);
  }
  char extra;
  if (data.size() > total || readSome(file.get(), &extra, 1, what) != 0)
    failInput("{}: there is more data than its header describes", what);
  data.erase(data.begin(), data.begin() + header.dataOffset);
  return {header.type, header.shape, std::move(data)};
}

std::map<std::string, Array> pp::runtime::readNpz(const std::string &path) {
  int code = 0;
  std::unique_ptr<zip_t, Discard> archive(
      zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    bool isFormat = code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS;
    throw Error(isFormat ? ErrorKind::InvalidInput : ErrorKind::IO,
                fmt::format("cannot open '{}': {}", path, reason));
  }
  std::map<std::string, Array> arrays;
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > 4096)
    failInput("'{}': {} entries are too many", path, count);
  uint64_t total = 0;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char *raw = zip_get_name(archive.get(), i, 0);
    std::string name = raw ? raw : "";
    std::string what = fmt::format("'{}', entry '{}'", path, name);
    if (name.size() <= 4 || name.substr(name.size() - 4) != ".npy")
      failInput("{}: not an .npy entry", what);
    name.resize(name.size() - 4);
    Array array = readEntry(archive.get(), i, what);
    total += array.data.size();
    if (total > maxArrayBytes)
      failInput("'{}': more than {} bytes of data", path, maxArrayBytes);
    if (!arrays.emplace(name, std::move(array)).second)
      failInput("{}: the name is used twice", what);
  }
  return arrays;
}

void pp::runtime::writeNpz(const std::string &path,
                           const std::map<std::string, Array> &arrays) {
  AtomicFile file(path);
  // libzip writes files by itself: an in-memory buffer keeps the rename ours.
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *target = zip_source_buffer_create(nullptr, 0, 0, &error);
  if (!target)
    failInternal("cannot write '{}': {}", path, zip_error_strerror(&error));
  zip_source_keep(target);
  zip_t *archive = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  if (!archive) {
    zip_source_free(target);
    zip_source_free(target);
    failInternal("cannot write '{}': {}", path, zip_error_strerror(&error));
  }
  std::map<std::string, std::string> contents; // read by zip_close
  std::string reason;
  for (const auto &[name, array] : arrays) {
    std::string &content = contents[name];
    content = formatNpyHeader(array.type, array.shape);
    content.append(array.data.begin(), array.data.end());
    zip_source_t *source =
        zip_source_buffer(archive, content.data(), content.size(), 0);
    zip_int64_t index = zip_file_add(archive, (name + ".npy").c_str(), source,
                                     ZIP_FL_ENC_UTF_8);
    if (index < 0 ||
        zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) != 0) {
      if (index < 0)
        zip_source_free(source);
      reason = zip_strerror(archive);
      break;
    }
  }
  if (reason.empty() && zip_close(archive) != 0)
    reason = zip_strerror(archive);
  if (!reason.empty())
    zip_discard(archive);
  bool open = reason.empty() && zip_source_open(target) == 0;
  std::vector<char> buffer(1 << 20);
  while (open) {
    zip_int64_t bytes = zip_source_read(target, buffer.data(), buffer.size());
    if (bytes < 0)
      reason = "cannot read back the archive";
    if (bytes <= 0)
      break;
    file.write(buffer.data(), bytes);
  }
  if (open)
    zip_source_close(target);
  else if (reason.empty())
    reason = "cannot read back the archive";
  zip_source_free(target);
  if (!reason.empty())
    failInternal("cannot write '{}': {}", path, reason);
  file.commit();
}
