//===- Taps.cpp - Samples of images between their elements ----------------===//

#include "Taps.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

Value pp::placeInside(Expressions &e, Value place, int64_t size) {
  place = e.select(e.isNaN(place), e.number(place, 0), place);
  return e.min(e.max(place, 0), static_cast<double>(size - 1));
}

Tap pp::tapOrZero(Expressions &e, Value place, Value weight, int64_t size) {
  Value isInside =
      e.both(e.compare(Comparison::ge, place, 0),
             e.compare(Comparison::le, place, static_cast<double>(size - 1)));
  return {placeInside(e, place, size),
          e.select(isInside, weight, e.number(weight, 0))};
}

SmallVector<Tap> pp::linearTaps(Expressions &e, Value x, int64_t size) {
  Value first = e.unary<FloorOp>(x), t = e.sub(x, first);
  return {tapOrZero(e, first, e.sub(1, t), size),
          tapOrZero(e, e.add(first, 1), t, size)};
}
