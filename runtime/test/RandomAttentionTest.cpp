//===- RandomAttentionTest.cpp - Random attention -------------------------===//
#include "RandomKernels.h"

using namespace pp::runtime;
using namespace pp::runtime::random_kernels;

namespace {

struct Attention {
  int64_t batch, heads, rows, columns, width, depth; // q: x width, v: x depth
  bool isCausal, areHeadsInside;
  double scale;
  DataType type;
  Dims mask; // with 1 for an axis that it is the same along; empty: none

  explicit Attention(Choice &choice)
      : batch(choice.upTo(2, 1)), heads(choice.upTo(3, 1)),
        rows(choice.of<int64_t>({1, 5, 16, 33, 64, 70, 100})),
        columns(choice.of<int64_t>({1, 7, 16, 32, 50, 64, 129})),
        width(choice.of<int64_t>({4, 8, 16, 24, 32, 40, 64, 80})),
        depth(choice.of<int64_t>({4, 8, 16, 24, 32, 40, 64, 80})),
        isCausal(choice.upTo(1) == 0), areHeadsInside(choice.upTo(1) == 0),
        scale(choice.of({0.125, 0.5, 1.0})),
        type(choice.of({DataType::F32, DataType::BF16, DataType::BF16})) {
    if (isCausal)
      columns = rows;
    if (choice.upTo(1) == 0)
      return;
    auto of = [&](int64_t size) {
      return choice.upTo(1) == 0 ? size : int64_t(1);
    };
    mask = {of(batch), of(heads), of(rows), columns};
  }

  /// What is added to a score; `head` is one of batch x heads.
  double added(const float *numbers, int64_t head, int64_t row,
               int64_t column) const {
    if (mask.empty())
      return 0;
    auto place = [&](size_t axis, int64_t index) {
      return mask[axis] == 1 ? 0 : index;
    };
    return numbers[((place(0, head / heads) * mask[1] +
                     place(1, head % heads)) *
                        mask[2] +
                    place(2, row)) *
                       columns +
                   column];
  }
  /// Hides a third of the columns, but not the first, which all rows see.
  void hide(float *numbers) const {
    const int64_t size =
        mask.empty() ? 0 : mask[0] * mask[1] * mask[2] * mask[3];
    for (int64_t i = 0; i < size; ++i)
      if (i % columns != 0 && i * 7 % 3 == 0)
        numbers[i] = -std::numeric_limits<float>::infinity();
  }
  /// Behind the operands that are always there.
  size_t forwardResult() const { return mask.empty() ? 3 : 4; }
  size_t backwardResult() const { return mask.empty() ? 6 : 7; }

  Dims strides(int64_t of, int64_t size) const {
    return areHeadsInside ? Dims{of * heads * size, size, heads * size, 1}
                          : Dims{heads * of * size, of * size, size, 1};
  }
  int64_t at(int64_t head, int64_t of, int64_t size, int64_t row,
             int64_t column) const {
    const Dims s = strides(of, size);
    return head / heads * s[0] + head % heads * s[1] + row * s[2] + column;
  }
  int64_t seen(int64_t row) const { return isCausal ? row + 1 : columns; }
  std::string keys(const std::string &kind) const {
    auto dims = [&](int64_t of, int64_t size) {
      return join({batch, heads, of, size});
    };
    const std::string q = join(strides(rows, width)),
                      k = join(strides(columns, width)),
                      v = join(strides(columns, depth)),
                      o = join(strides(rows, depth));
    std::string text =
        kind + " q=" + dims(rows, width) + " k=" + dims(columns, width) +
        " v=" + dims(columns, depth) + " scale=" + std::to_string(scale) +
        " causal=" + (isCausal ? "1" : "0") + " types=" + nameOfType(type) +
        " qs=" + q + " ks=" + k + " vs=" + v + " os=" + o;
    if (!mask.empty())
      text += " mask=" + join(mask);
    if (kind == "attention_backward")
      text += " dos=" + o + " dqs=" + q + " dks=" + k + " dvs=" + v;
    return text;
  }

  /// Of one head, from tensors in the order of the kernels.
  struct Head {
    std::vector<double> weights; // rows x columns
    std::vector<double> outputs; // rows x depth
    std::vector<double> logarithms;
  };
  /// `masks`: the mask, if there is one.
  Head compute(void *const *tensors, const void *masks, int64_t head) const;
  double read(const void *data, int64_t place) const {
    return readNumber(type, data, place);
  }
};

Attention::Head Attention::compute(void *const *tensors, const void *masks,
                                   int64_t head) const {
  Head result{std::vector<double>(rows * columns),
              std::vector<double>(rows * depth),
              {}};
  for (int64_t row = 0; row < rows; ++row) {
    double *weights = &result.weights[row * columns], sum = 0;
    for (int64_t column = 0; column < seen(row); ++column) {
      double score = 0;
      for (int64_t i = 0; i < width; ++i)
        score += read(tensors[0], at(head, rows, width, row, i)) *
                 read(tensors[1], at(head, columns, width, column, i));
      score = scale * score +
              added(static_cast<const float *>(masks), head, row, column);
      sum += weights[column] = std::exp(score);
    }
    for (int64_t column = 0; column < seen(row); ++column) {
      weights[column] /= sum;
      for (int64_t i = 0; i < depth; ++i)
        result.outputs[row * depth + i] +=
            weights[column] *
            read(tensors[2], at(head, columns, depth, column, i));
    }
    result.logarithms.push_back(std::log(sum));
  }
  return result;
}

using Sums = std::vector<std::pair<int64_t, Sum>>;

std::vector<Case> makeCases(const Attention &a) {
  const int64_t all = a.batch * a.heads;
  Case forward;
  forward.keys = a.keys("attention_forward");
  forward.resultType = a.type;
  forward.result = a.forwardResult();
  forward.prepare = [=](void *const *tensors) {
    a.hide(static_cast<float *>(tensors[3]));
  };
  forward.error = a.type == DataType::F32 ? 0x1p-16 : 0x1p-6;
  forward.compute = [=](void *const *tensors) {
    Sums sums;
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, tensors[3], head);
      for (int64_t row = 0; row < a.rows; ++row)
        for (int64_t i = 0; i < a.depth; ++i) {
          Sum sum;
          sum.add(own.outputs[row * a.depth + i]);
          sums.emplace_back(a.at(head, a.rows, a.depth, row, i), sum);
        }
    }
    return sums;
  };
  Case logarithms = forward;
  logarithms.resultType = DataType::F32;
  logarithms.result = forward.result + 1;
  logarithms.compute = [=](void *const *tensors) {
    Sums sums;
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, tensors[3], head);
      for (int64_t row = 0; row < a.rows; ++row) {
        Sum sum;
        sum.add(own.logarithms[row]);
        sum.add(1); // what is rounded are the scores
        sum.value -= 1;
        sums.emplace_back(head * a.rows + row, sum);
      }
    }
    return sums;
  };

  Case backward = forward;
  backward.keys = a.keys("attention_backward");
  backward.prepare = [=](void *const *tensors) {
    a.hide(static_cast<float *>(tensors[6]));
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, tensors[6], head);
      for (int64_t row = 0; row < a.rows; ++row) {
        static_cast<float *>(tensors[4])[head * a.rows + row] =
            static_cast<float>(own.logarithms[row]);
        for (int64_t i = 0; i < a.depth; ++i) {
          const int64_t at = a.at(head, a.rows, a.depth, row, i);
          const auto value = static_cast<float>(own.outputs[row * a.depth + i]);
          if (a.type == DataType::F32)
            static_cast<float *>(tensors[3])[at] = value;
          else
            static_cast<uint16_t *>(tensors[3])[at] =
                toShortFloat(a.type, value);
        }
      }
    }
  };
  // dS, and from it and P all gradients.
  auto gradient = [=](size_t which) {
    return [=](void *const *tensors) {
      const int64_t of = which == 0 ? a.rows : a.columns;
      const int64_t size = which == 2 ? a.depth : a.width;
      Sums result;
      for (int64_t head = 0; head < all; ++head) {
        const auto own = a.compute(tensors, tensors[6], head);
        std::vector<Sum> sums(of * size);
        for (int64_t row = 0; row < a.rows; ++row) {
          auto dy = [&](int64_t i) {
            return a.read(tensors[5], a.at(head, a.rows, a.depth, row, i));
          };
          Sum mean;
          for (int64_t i = 0; i < a.depth; ++i)
            mean.add(dy(i) * own.outputs[row * a.depth + i]);
          for (int64_t column = 0; column < a.seen(row); ++column) {
            const double weight = own.weights[row * a.columns + column];
            Sum dWeight;
            for (int64_t i = 0; i < a.depth; ++i)
              dWeight.add(dy(i) * a.read(tensors[2], a.at(head, a.columns,
                                                          a.depth, column, i)));
            const double share = a.scale * weight;
            auto addScore = [&](Sum &sum, double factor) {
              sum.add(share * (dWeight.value - mean.value) * factor,
                      share * (dWeight.size + mean.size) * std::fabs(factor));
            };
            for (int64_t i = 0; i < size; ++i)
              if (which == 0)
                addScore(sums[row * size + i],
                         a.read(tensors[1],
                                a.at(head, a.columns, a.width, column, i)));
              else if (which == 1)
                addScore(
                    sums[column * size + i],
                    a.read(tensors[0], a.at(head, a.rows, a.width, row, i)));
              else
                sums[column * size + i].add(weight * dy(i));
          }
        }
        for (int64_t row = 0; row < of; ++row)
          for (int64_t i = 0; i < size; ++i)
            result.emplace_back(a.at(head, of, size, row, i),
                                sums[row * size + i]);
      }
      return result;
    };
  };
  std::vector<Case> cases{forward, logarithms};
  for (size_t which : {0, 1, 2}) {
    backward.result = a.backwardResult() + which;
    backward.compute = gradient(which);
    cases.push_back(backward);
  }
  return cases;
}

TEST(RandomKernels, AttendRightly) {
  for (unsigned seed = 1; seed <= countCases(25); ++seed) {
    Choice choice(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Case &each : makeCases(Attention(choice)))
      EXPECT_TRUE(check(each, seed)) << each.keys;
    if (HasFailure())
      return;
  }
}

} // namespace
