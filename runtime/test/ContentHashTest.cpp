//===- ContentHashTest.cpp - The hash of contents -------------------------===//
#include "support/ContentHash.h"

#include <gtest/gtest.h>

#include <set>

using namespace pp::runtime;

namespace {

TEST(ContentHash, IsTheOneThatIsWrittenIntoFiles) {
  // XXH3's own values, so that files stay readable.
  EXPECT_EQ(toHex(hashContent(nullptr, 0)), "2d06800538d394c2");
  EXPECT_EQ(toHex(hashContent("a", 1)), "e6c632b61e964e1f");
  EXPECT_EQ(toHex(0x12), "0000000000000012");
}

TEST(ContentHash, PiecesDoNotMatter) {
  std::string text(100'000, '\0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * i >> 3);
  uint64_t whole = hashContent(text.data(), text.size());
  for (size_t piece : {1, 7, 255, 256, 4096, 99'999}) {
    ContentHash hash;
    for (size_t at = 0; at < text.size(); at += piece)
      hash.add(&text[at], std::min(piece, text.size() - at));
    EXPECT_EQ(hash.get(), whole) << piece;
  }
}

TEST(ContentHash, EveryByteMatters) {
  std::string text(2000, 'x');
  std::set<uint64_t> seen{hashContent(text.data(), text.size())};
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] ^= 1;
    EXPECT_TRUE(seen.insert(hashContent(text.data(), text.size())).second);
    text[i] ^= 1;
  }
}

TEST(ContentHash, TextsHaveBorders) {
  ContentHash first, second;
  first.addText("ab");
  first.addText("c");
  second.addText("a");
  second.addText("bc");
  EXPECT_NE(first.get(), second.get());
}

} // namespace
