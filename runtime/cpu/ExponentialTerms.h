//===- ExponentialTerms.h - e^x as a polynomial -----------------*- C++ -*-===//
//-----------===//
#ifndef PPRT_CPU_EXPONENTIALTERMS_H
#define PPRT_CPU_EXPONENTIALTERMS_H

namespace pp::runtime {

/// e^x = 2^n e^r with n, the nearest integer to x / ln 2, and r = x - n ln 2.
/// The logarithm is `high` + `low`, so that r has all its bits.
struct ExponentialTerms {
  static constexpr double ln2 = 0.6931471805599453;
  static constexpr float perLn2 = static_cast<float>(1 / ln2);
  static constexpr float high = static_cast<float>(ln2),
                         low = static_cast<float>(ln2 - high);
  /// e^r for |r| <= ln(2) / 2 with the least greatest error, by Horner's
  /// scheme: the term of r^6, and those below it.
  static constexpr float first = 0.0013836835278198123f;
  static constexpr float others[] = {0.008374824188649654f,
                                     0.04166822507977486f,
                                     0.16666419804096222f,
                                     0.49999991059303284f,
                                     1.0f,
                                     1.0f};
};

} // namespace pp::runtime

#endif // PPRT_CPU_EXPONENTIALTERMS_H
