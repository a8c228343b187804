// The same for their tests.
#include "PrecompiledStd.h"

#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
