//===- TextHandlers.cpp - ONNX operators on words that have numbers -------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Counts in a list of words how often each phrase of a pool is there, also
/// with words between its own, the same number everywhere.
class PhraseCounter {
public:
  explicit PhraseCounter(NodeImporter &n) : n(n), e{n} {}

  LogicalResult run() {
    if (failed(readPool()) || failed(readInput()))
      return failure();
    // The last column is that of no phrase.
    SmallVector<Value> counts;
    for (size_t index = 0; index < phrases.size(); ++index)
      if (int64_t number = countOf(index))
        counts.push_back(
            countAll(index, static_cast<int64_t>(index) + 1, number));
    counts.push_back(zeros(1));
    Value all = n.join(counts, 1, /*isNew=*/false);
    if (!all)
      return failure();
    Value y = n.take(weighed(all), 1, columns);
    ArrayRef<int64_t> shape = n.shape(n.tensor(0));
    n.setOutput(0, shape.size() == 1
                       ? n.reshape(y, {static_cast<int64_t>(columns.size())})
                       : y);
    return success();
  }

private:
  /// Phrases by their length, less 1, and by column of the output.
  LogicalResult readPool() {
    if (n.findAttribute("pool_strings"))
      return n.error("attribute pool_strings is not supported: elements of "
                     "type STRING are not");
    SmallVector<int64_t> pool = n.attribute("pool_int64s", ArrayRef<int64_t>());
    SmallVector<int64_t> starts =
        n.attribute("ngram_counts", ArrayRef<int64_t>());
    SmallVector<int64_t> indices =
        n.attribute("ngram_indexes", ArrayRef<int64_t>());
    shortest = n.attribute("min_gram_length", int64_t{1});
    longest = n.attribute("max_gram_length", int64_t{1});
    skips = n.attribute("max_skip_count", int64_t{0});
    if (shortest < 1 || longest < shortest || skips < 0 || skips > mostSkips)
      return n.error("has phrases of " + llvm::Twine(shortest) + " to " +
                     llvm::Twine(longest) + " words with up to " +
                     llvm::Twine(skips) + " between them");
    int64_t total = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      int64_t begin = starts[i], length = static_cast<int64_t>(i) + 1;
      int64_t end = i + 1 < starts.size() ? starts[i + 1]
                                          : static_cast<int64_t>(pool.size());
      if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) ||
          (end - begin) % length)
        return n.error("attribute ngram_counts does not divide the pool into "
                       "phrases");
      phrases.emplace_back(pool.begin() + begin, pool.begin() + end);
      total += (end - begin) / length;
    }
    if (static_cast<int64_t>(indices.size()) != total || total == 0)
      return n.error("attribute ngram_indexes has " +
                     llvm::Twine(indices.size()) + " numbers for " +
                     llvm::Twine(total) + " phrases");
    for (auto [phrase, column] : llvm::enumerate(indices)) {
      if (column < 0 || column >= mostColumns)
        return n.error("attribute ngram_indexes has " + llvm::Twine(column));
      if (column >= static_cast<int64_t>(columns.size()))
        columns.resize(column + 1, total);
      columns[column] = static_cast<int64_t>(phrase);
    }
    return success();
  }

  LogicalResult readInput() {
    Value x = n.tensor(0);
    if (!x)
      return failure();
    ArrayRef<int64_t> shape = n.shape(x);
    if (shape.empty() || shape.size() > 2)
      return n.error("takes one list of words or several, not rank " +
                     llvm::Twine(shape.size()));
    rows = shape.size() == 2 ? shape[0] : 1;
    width = shape.back();
    words = n.cast(n.reshape(x, {rows, width}), n.getBuilder().getI64Type());
    return success();
  }

  int64_t countOf(size_t index) {
    return static_cast<int64_t>(phrases[index].size() / (index + 1));
  }

  Value zeros(int64_t count) {
    return n.splat(
        RankedTensorType::get({rows, count}, n.getBuilder().getF32Type()), 0);
  }

  /// How often each of `number` phrases of this length is in each row.
  Value countAll(size_t index, int64_t length, int64_t number) {
    Value sum = zeros(number);
    if (length < shortest || length > longest)
      return sum;
    Type i64 = n.getBuilder().getI64Type();
    for (int64_t step = 1; step <= (length == 1 ? 1 : skips + 1); ++step) {
      int64_t places = width - (length - 1) * step;
      if (places < 1)
        break;
      SmallVector<int64_t> shape = {rows, places, number};
      Value isThere;
      for (int64_t word = 0; word < length; ++word) {
        SmallVector<int64_t> wanted;
        for (int64_t phrase = 0; phrase < number; ++phrase)
          wanted.push_back(phrases[index][phrase * length + word]);
        Value found = n.slice(words, 1, word * step, word * step + places);
        Value own = n.constant(Constant(DenseElementsAttr::get(
            RankedTensorType::get(number, i64), ArrayRef<int64_t>(wanted))));
        auto type = RankedTensorType::get(shape, i64);
        Value isWord =
            e.compare(Comparison::eq,
                      n.make<BroadcastOp>(type, found, ArrayRef<int64_t>{0, 1}),
                      n.make<BroadcastOp>(type, own, ArrayRef<int64_t>{2}));
        isThere = isThere ? e.both(isThere, isWord) : isWord;
      }
      Value counted = n.cast(isThere, n.getBuilder().getF32Type());
      sum = e.add(sum, n.reduce(Reduction::sum, counted, int64_t{1}, false));
    }
    return sum;
  }

  /// Counts, whether there are any, or both, by the weights of the phrases.
  Value weighed(Value counts) {
    std::string mode = n.attribute("mode", "TF");
    if (mode == "IDF")
      counts = n.cast(e.compare(Comparison::gt, counts, 0),
                      n.getBuilder().getF32Type());
    const onnx::Attribute *weights = n.findAttribute("weights");
    if (!weights || mode == "TF")
      return counts;
    int64_t number = n.shape(counts)[1];
    SmallVector<float> values(weights->floats.begin(), weights->floats.end());
    values.resize(number, 1);
    Value factors = n.constant(Constant(DenseElementsAttr::get(
        RankedTensorType::get(number, n.getBuilder().getF32Type()),
        ArrayRef<float>(values))));
    return e.mul(counts, n.make<BroadcastOp>(n.type(counts), factors,
                                             ArrayRef<int64_t>{1}));
  }

  /// More are of no use, and would be unrolled.
  static constexpr int64_t mostSkips = 256, mostColumns = 1 << 24;

  NodeImporter &n;
  Expressions e;
  std::vector<std::vector<int64_t>> phrases;
  SmallVector<int64_t> columns; // the phrase of each, or the number of phrases
  int64_t shortest = 1, longest = 1, skips = 0;
  int64_t rows = 1, width = 0;
  Value words;
};

LogicalResult tfIdfVectorizer(NodeImporter &n) {
  return PhraseCounter(n).run();
}

} // namespace

ArrayRef<ImportedOperator> pp::textOperators() {
  static const ImportedOperator entries[] = {
      {.name = "TfIdfVectorizer",
       .handler = tfIdfVectorizer,
       .types = indexTypes,
       .isDifferentiable = false,
       .choices = {{"mode", {"TF", "IDF", "TFIDF"}}},
       .note = "words are numbers"},
  };
  return entries;
}
