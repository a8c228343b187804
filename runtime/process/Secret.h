//===- Secret.h - What only the processes of a job know -------------------===//
#ifndef PP_RUNTIME_PROCESS_SECRET_H
#define PP_RUNTIME_PROCESS_SECRET_H

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace pp::runtime {

/// 32 random bytes. Throws Error(Internal) where there is no randomness.
std::array<uint8_t, 32> makeNonce();

/// A new secret: the digits of 32 random bytes.
std::string makeSecret();

/// The secret that the user gave: what `file` holds, or `variable` where no
/// file is named; white space at the end does not count. Empty where neither is
/// given; `variable` may be null. Throws Error(Usage) for one that is too short
/// to be a secret or a file that everybody may read, Error(IO) for a file that
/// cannot be read.
std::string readSecret(const std::string &file, const char *variable);

using Proof = std::array<uint8_t, 32>;

/// HMAC-SHA-256 of `parts`, each with its length before it: other parts with
/// the same bytes have another proof.
Proof prove(const std::string &secret,
            std::initializer_list<std::string_view> parts);

/// Compares in constant time, which does not tell where they differ.
bool isEqual(const Proof &first, const Proof &second);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_SECRET_H
