//===- Secret.cpp ---------------------------------------------------------===//
#include "process/Secret.h"
#include "support/Error.h"

#include <sodium.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace pp::runtime;

/// Guessing has to be hopeless.
static constexpr size_t minLength = 16, maxLength = 4096;

static void start() {
  if (sodium_init() < 0)
    failInternal("libsodium finds no source of random numbers");
}

std::array<uint8_t, 32> pp::runtime::makeNonce() {
  start();
  std::array<uint8_t, 32> nonce{};
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string pp::runtime::makeSecret() {
  std::string text;
  for (uint8_t byte : makeNonce())
    text += fmt::format("{:02x}", byte);
  return text;
}

static std::string readFile(const std::string &path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    failIO(fmt::format("--secret-file '{}'", path));
  struct stat status{};
  std::string text(maxLength + 1, '\0');
  ssize_t bytes = fstat(descriptor, &status) == 0
                      ? read(descriptor, text.data(), text.size())
                      : -1;
  int code = errno;
  close(descriptor);
  errno = code;
  if (bytes < 0)
    failIO(fmt::format("--secret-file '{}'", path));
  if (status.st_mode & S_IRWXO)
    failUsage("--secret-file '{}': everybody on this machine may read or write "
              "it; run: chmod 600 '{}'",
              path, path);
  text.resize(static_cast<size_t>(bytes));
  return text;
}

std::string pp::runtime::readSecret(const std::string &file,
                                    const char *variable) {
  if (file.empty() && !variable)
    return "";
  std::string name =
      file.empty() ? "PP_SECRET" : fmt::format("--secret-file '{}'", file);
  std::string text = file.empty() ? variable : readFile(file);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text.size() < minLength || text.size() > maxLength)
    failUsage("{}: a secret has {} to {} characters, this one has {}; 'openssl "
              "rand -hex 32' makes one",
              name, minLength, maxLength, text.size());
  return text;
}

Proof pp::runtime::prove(const std::string &secret,
                         std::initializer_list<std::string_view> parts) {
  start();
  auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char *>(text.data());
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
  for (std::string_view part : parts) {
    uint64_t size = part.size();
    crypto_auth_hmacsha256_update(
        &state, reinterpret_cast<const unsigned char *>(&size), sizeof(size));
    crypto_auth_hmacsha256_update(&state, bytes(part), part.size());
  }
  Proof proof{};
  static_assert(sizeof(proof) == crypto_auth_hmacsha256_BYTES);
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

bool pp::runtime::isEqual(const Proof &first, const Proof &second) {
  return sodium_memcmp(first.data(), second.data(), first.size()) == 0;
}
