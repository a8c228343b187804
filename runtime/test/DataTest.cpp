//===- DataTest.cpp - npy, npz, safetensors, shuffle, data set ------------===//
#include "TestFiles.h"
#include "ToyProgram.h"
#include "exec/DataSet.h"
#include "exec/Shuffle.h"
#include "formats/Safetensors.h"
#include "plan/PlanJson.h"
#include "support/AtomicFile.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace pp::runtime;

namespace {

template <typename T>
Array makeArray(DataType type, Shape shape, std::vector<T> values) {
  Array array{type, std::move(shape), {}};
  array.data.resize(values.size() * sizeof(T));
  if (!values.empty())
    std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

std::string npy(const std::string &dictionary, const std::string &data) {
  std::string text = dictionary + "\n";
  std::string file("\x93NUMPY\x01\x00", 8);
  file += char(text.size() & 255);
  file += char(text.size() >> 8);
  return file + text + data;
}

TEST(NpyTest, ReadsWhatItWrites) {
  TemporaryDirectory directory;
  for (DataType type :
       {DataType::F32, DataType::F64, DataType::I64, DataType::I32,
        DataType::I16, DataType::I8, DataType::U64, DataType::U32,
        DataType::U16, DataType::U8, DataType::I1, DataType::BF16,
        DataType::F16})
    for (const Shape &shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 4}}) {
      std::string data(*elementCount(shape) * sizeOf(type), 'a');
      std::string header = formatNpyHeader(type, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      writeText(directory.file("x.npy"), header + data);
      Array array = readNpy(directory.file("x.npy"));
      EXPECT_EQ(array.type, type);
      EXPECT_EQ(array.shape, shape);
      EXPECT_EQ(std::string(array.data.begin(), array.data.end()), data);
    }
}

TEST(NpyTest, DataStayInTheFileUntilTheyAreChanged) {
  TemporaryDirectory directory;
  writeText(directory.file("x.npy"),
            formatNpyHeader(DataType::U8, {4}) + "abcd");
  Array array = readNpy(directory.file("x.npy")), changed = array;
  const Array &first = array, &second = changed;
  EXPECT_EQ(first.data.data(), second.data.data());
  changed.data[1] = 'x';
  EXPECT_EQ(std::string(first.data.begin(), first.data.end()), "abcd");
  EXPECT_EQ(std::string(second.data.begin(), second.data.end()), "axcd");
  changed.data.resize(6);
  EXPECT_EQ(second.data.size(), 6u);
  // Also when its name is gone, or another file has it.
  writeText(directory.file("y.npy"), "");
  std::rename(directory.file("y.npy").c_str(), directory.file("x.npy").c_str());
  EXPECT_EQ(std::string(first.data.begin(), first.data.end()), "abcd");
  Array none = array;
  none.data.resize(0);
  EXPECT_TRUE(none.data.empty());
}

TEST(NpyTest, MalformedFiles) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "not an .npy"},
      {"\x93NUMPY", "not an .npy"},
      {"PK\x03\x04 is a zip", "not an .npy"},
      {std::string("\x93NUMPY\x09\x00\x10\x00", 10), "version 9"},
      {std::string("\x93NUMPY\x01\x00\xff\x7f{", 11), "truncated"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "x"),
       "pickle"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"),
       "big-endian"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "1234"),
       "Fortran"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
           "1234"),
       "structured"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", ""),
       "not supported"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"),
       "describes"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
           "12345"),
       "describes"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", ""),
       "malformed shape"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(99999999999999999,), }",
           ""),
       "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(999999999,999999999,), }",
           ""),
       "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False}", ""),
       "expected the keys"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", ""), "twice"},
      {npy("__import__('os')", ""), "expected '{'"},
      {npy("{'descr': '<f4", ""), "unterminated"},
  };
  TemporaryDirectory directory;
  for (const auto &[content, expected] : cases) {
    writeText(directory.file("x.npy"), content);
    std::string message = errorOf([&] { readNpy(directory.file("x.npy")); });
    EXPECT_NE(message.find(expected), std::string::npos)
        << expected << " in: " << message;
    EXPECT_NE(message.find("x.npy"), std::string::npos) << message;
  }
  EXPECT_NE(errorOf([&] { readNpy(directory.file("none.npy")); }).find("none"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { readNpy(directory.path); }), "no error");
}

void writeZip(const std::string &path, const std::string &name,
              const std::string &content, bool compress) {
  int code = 0;
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_TRUE(archive);
  zip_int64_t index = zip_file_add(
      archive, name.c_str(),
      zip_source_buffer(archive, content.data(), content.size(), 0), 0);
  zip_set_file_compression(archive, index,
                           compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  ASSERT_EQ(zip_close(archive), 0);
}

TEST(NpzTest, ReadsWhatItWritesAndCompressed) {
  TemporaryDirectory directory;
  std::map<std::string, Array> arrays;
  arrays["a"] = makeArray<float>(DataType::F32, {2, 2}, {1, 2, 3, 4});
  arrays["b"] = makeArray<int64_t>(DataType::I64, {0}, {});
  writeNpz(directory.file("x.npz"), arrays);
  auto back = readNpz(directory.file("x.npz"));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back["a"].data, arrays["a"].data);
  EXPECT_EQ(back["b"].shape, Shape{0});
  std::string zeros(400000, '\0');
  writeZip(directory.file("z.npz"), "z.npy",
           formatNpyHeader(DataType::F32, {100000}) + zeros, true);
  EXPECT_EQ(readNpz(directory.file("z.npz"))["z"].data.size(), 400000u);
  EXPECT_LT(std::filesystem::file_size(directory.file("z.npz")), 4000u);
}

TEST(NpzTest, MalformedFiles) {
  TemporaryDirectory directory;
  std::string path = directory.file("x.npz");
  auto message = [&] { return errorOf([&] { readNpz(path); }); };
  auto expect = [&](const char *expected) {
    EXPECT_NE(message().find(expected), std::string::npos) << message();
  };
  writeText(path, "not a zip");
  expect("cannot open");
  writeZip(path, "readme.txt", "hello", false);
  expect("not an .npy entry");
  writeZip(path, "x.npy", "hello", false);
  expect("not an .npy file");
  writeZip(path, "x.npy", formatNpyHeader(DataType::F32, {3}) + "1234", true);
  expect("describes");
  writeZip(path, "x.npy", formatNpyHeader(DataType::F32, {1}) + "12345", true);
  expect("describes");
  writeZip(path, "x.npy", formatNpyHeader(DataType::F32, {int64_t(1) << 37}),
           true);
  expect("too large");
  // A size that deflate cannot reach: both records of the size are patched.
  std::string data(4096, 'x');
  writeZip(path, "x.npy", formatNpyHeader(DataType::U8, {4096}) + data, true);
  std::string file = readText(path);
  uint32_t real = 4096 + 128, lie = 1u << 31;
  size_t patched = 0;
  for (size_t i = 0; i + 4 <= file.size(); ++i)
    if (std::memcmp(&file[i], &real, 4) == 0) {
      std::memcpy(&file[i], &lie, 4);
      ++patched;
    }
  ASSERT_GE(patched, 1u);
  writeText(path, file);
  expect("bomb");
  // Damaged data: the checksum no longer fits.
  writeZip(path, "x.npy",
           formatNpyHeader(DataType::U8, {4096}) + std::string(4096, 'q'),
           false);
  file = readText(path);
  size_t position = file.find(std::string(64, 'q'));
  ASSERT_NE(position, std::string::npos);
  file[position + 1000] = 'r';
  writeText(path, file);
  expect("damaged");
  // No truncation crashes.
  for (size_t size = 0; size < file.size(); size += 97) {
    writeText(path, file.substr(0, size));
    EXPECT_NE(message(), "no error");
  }
}

std::string safetensors(const std::string &header, const std::string &data) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<char *>(&size), 8) + header + data;
}

TEST(SafetensorsTest, ReadsWhatItWrites) {
  TemporaryDirectory directory;
  float values[] = {1, 2, 3, 4};
  int64_t number = 7;
  std::string path = directory.file("x.safetensors");
  writeSafetensors(
      path,
      {{"w", {DataType::F32, {2, 2}, reinterpret_cast<char *>(values)}},
       {"n", {DataType::I64, {}, reinterpret_cast<char *>(&number)}}},
      {{"step", "12"}});
  SafetensorsFile file(path);
  EXPECT_EQ(file.getMetadata().at("step"), "12");
  ASSERT_TRUE(file.find("w"));
  EXPECT_EQ(file.find("w")->shape, (Shape{2, 2}));
  EXPECT_EQ(std::memcmp(file.find("w")->data, values, 16), 0);
  EXPECT_EQ(std::memcmp(file.find("n")->data, &number, 8), 0);
  EXPECT_FALSE(file.find("x"));
  // Nothing else is left in the directory.
  EXPECT_EQ(
      std::distance(std::filesystem::directory_iterator(directory.path), {}),
      1);
  EXPECT_NE(errorOf([&] {
              writeSafetensors(directory.file("no/x.safetensors"), {}, {});
            }),
            "no error");
}

TEST(SafetensorsTest, MalformedFiles) {
  auto one = [](const char *dtype, const char *shape, const char *offsets) {
    return fmt::format(
        R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype,
        shape, offsets);
  };
  const std::pair<std::string, const char *> cases[] = {
      {"", "0 bytes"},
      {std::string(8, '\xff'), "header of"},
      {safetensors("{", ""), "parse error"},
      {safetensors("[]", ""), "expected an object"},
      {safetensors(one("F8_E4M3", "[1]", "[0,2]"), "ab"), "F8_E4M3"},
      {safetensors(one("F32", "[2]", "[0,4]"), "abcd"), "4 bytes for"},
      {safetensors(one("F32", "[1]", "[0,8]"), "abcd"), "outside"},
      {safetensors(one("F32", "[1]", "[8,4]"), "abcd"), "outside"},
      {safetensors(one("F32", "[-1]", "[0,4]"), "abcd"), "shape[0]"},
      {safetensors(one("F32", "[1]", "[0]"), "abcd"), "two numbers"},
      {safetensors(one("F32", "[281474976710656,281474976710656]", "[0,4]"),
                   "abcd"),
       "too large"},
      {safetensors(one("F32", "[1]", "[0,4]"), "abcdefgh"), "belong to no"},
      {safetensors(one("F32", "[1]", "[4,8]"), "abcdefgh"), "gap"},
      {safetensors(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                   "abcdef"),
       "overlaps"},
      {safetensors(R"({"__metadata__":{"a":1}})", ""), "expected a string"},
      {safetensors(R"({"__metadata__":[]})", ""), "__metadata__"},
      {safetensors(std::string(100, '[') + std::string(100, ']'), ""),
       "nested"},
  };
  TemporaryDirectory directory;
  for (const auto &[content, expected] : cases) {
    std::string path = directory.file("x.safetensors");
    writeText(path, content);
    std::string message = errorOf([&] { SafetensorsFile file(path); });
    EXPECT_NE(message.find(expected), std::string::npos)
        << expected << " in: " << message;
  }
}

TEST(ShuffleTest, IsAPermutationOfSeedAndEpoch) {
  for (uint64_t samples : {0, 1, 2, 100, 1000}) {
    auto order = shuffledOrder(1, 2, samples);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (uint64_t i = 0; i < samples; ++i)
      EXPECT_EQ(sorted[i], i);
    EXPECT_EQ(order, shuffledOrder(1, 2, samples));
  }
  EXPECT_NE(shuffledOrder(1, 2, 100), shuffledOrder(1, 3, 100));
  EXPECT_NE(shuffledOrder(1, 2, 100), shuffledOrder(2, 2, 100));
  EXPECT_NE(shuffledOrder(1, 2, 100), shuffledOrder(2, 1, 100));
  // No position prefers a sample.
  std::vector<unsigned> first(8);
  for (uint64_t epoch = 0; epoch < 8000; ++epoch)
    ++first[shuffledOrder(0, epoch, 8)[0]];
  for (unsigned count : first)
    EXPECT_NEAR(count, 1000, 200);
}

TEST(DataSetTest, ChecksAndConverts) {
  Plan plan = Plan::parse(toy::trainingPlan({}).dump());
  auto valid = toy::data(16);
  EXPECT_EQ(DataSet(plan, valid).getSamples(), 16u);
  auto message = [&](auto change, bool allowOthers = false) {
    auto arrays = valid;
    change(arrays);
    return errorOf([&] { DataSet(plan, arrays, allowOthers); });
  };
  EXPECT_NE(message([](auto &a) { a.erase("x"); }).find("no array 'x'"),
            std::string::npos);
  EXPECT_NE(message([](auto &a) { a["x"].shape = {8, 8}; }).find("array 'x'"),
            std::string::npos);
  EXPECT_NE(message([](auto &a) {
              a["x"].type = DataType::I32;
            }).find("expected f32"),
            std::string::npos);
  EXPECT_NE(message([](auto &a) {
              a["target"] = toy::data(8)["target"];
            }).find("samples"),
            std::string::npos);
  EXPECT_NE(message([](auto &a) { a["y"] = a["x"]; }).find("no input 'y'"),
            std::string::npos);
  EXPECT_EQ(message([](auto &a) { a["y"] = a["x"]; }, true), "no error");
  std::vector<double> wide(64);
  std::iota(wide.begin(), wide.end(), 0.5);
  auto arrays = valid;
  arrays["x"] = makeArray<double>(DataType::F64, {16, 4}, wide);
  DataSet data(plan, arrays);
  Step step(plan);
  data.fill(step, {3, 0, 1, 2, 15, 5, 6, 7}, 0);
  const float *row = reinterpret_cast<float *>(step.feeds[0].at(2));
  EXPECT_EQ(row[0], 60.5f);
  EXPECT_EQ(row[3], 63.5f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(row) % 64, 0u);
}

/// A step and its micro-batches are told from each other.
TEST(DataSetTest, NormalizesBytes) {
  toy::Options options;
  Plan plan = Plan::parse(toy::trainingPlan(options).dump());
  auto arrays = toy::data(16);
  std::vector<uint8_t> bytes(16 * toy::width);
  std::iota(bytes.begin(), bytes.end(), 100);
  arrays["x"] = makeArray(DataType::U8, {16, toy::width}, bytes);
  std::vector<uint64_t> order(16);
  std::iota(order.begin(), order.end(), 0);
  auto rowOf = [&](const Normalizations &normalizations, uint64_t row) {
    DataSet data(plan, arrays, /*allowOthers=*/false, normalizations);
    Step step(plan);
    data.fill(step, order, 8);
    std::vector<float> values(toy::width);
    step.feeds[0].read(row, 1, reinterpret_cast<char *>(values.data()));
    return values;
  };
  // Rows 9 and 10 of the data are rows 1 and 2 of the second batch.
  EXPECT_EQ(rowOf({{"x=0.5"}, {}, {}}, 1),
            (std::vector<float>{68, 68.5, 69, 69.5}));
  EXPECT_EQ(rowOf({{"x=0.5"}, {"x=1"}, {"x=0.25"}}, 1),
            (std::vector<float>{268, 270, 272, 274}));
  EXPECT_EQ(rowOf({{}, {"x=0,1,2,3"}, {"x=1,1,1,2"}}, 2),
            (std::vector<float>{140, 140, 140, 70}));
  auto message = [&](const Normalizations &normalizations) {
    return errorOf([&] { DataSet(plan, arrays, false, normalizations); });
  };
  EXPECT_NE(message({}).find("--input-scale x="), std::string::npos);
  EXPECT_NE(message({{"y=1"}, {}, {}}).find("no input 'y'"), std::string::npos);
  EXPECT_NE(message({{"x=1"}, {"x=1,2,3"}, {}}).find("channels"),
            std::string::npos);
  EXPECT_NE(message({{}, {"x=1,2,3,4"}, {"x=1,2"}}).find("4 means"),
            std::string::npos);
  for (const char *wrong : {"x", "=1", "x=", "x=one", "x=1,", "x=inf", "x=1,2"})
    EXPECT_NE(
        errorOf([&] { Normalizations({wrong}, {}, {}); }).find("--input-scale"),
        std::string::npos)
        << wrong;
  EXPECT_NE(errorOf([] { Normalizations({}, {}, {"x=0"}); }).find("not 0"),
            std::string::npos);
}

TEST(DataSetTest, PositionsHaveRangesOfTheirOwn) {
  auto json = toy::trainingPlan({});
  auto rows = json["feeds"][0]["shape"][0];
  json["feeds"].push_back({{"name", "columns"},
                           {"role", "input"},
                           {"dtype", "i64"},
                           {"shape", {rows, 3}},
                           {"batched", true}});
  auto &range = json["feeds"].back()["range"];
  constexpr int64_t least = std::numeric_limits<int64_t>::min(),
                    most = std::numeric_limits<int64_t>::max();
  range = {-3, 2, -9, 8, least, most};
  Plan plan = Plan::parse(json.dump());
  EXPECT_EQ(Plan::parse(toJson(plan)).feeds.back().range,
            (std::vector<int64_t>{-3, 2, -9, 8, least, most}));
  auto messageFor = [&](int64_t sample, int64_t position, int64_t value) {
    auto arrays = toy::data(16);
    std::vector<int64_t> columns(48, 0);
    columns[sample * 3 + position] = value;
    arrays["columns"] = makeArray<int64_t>(DataType::I64, {16, 3}, columns);
    return errorOf([&] { DataSet(plan, arrays); });
  };
  for (int64_t fits : {-3, 2})
    EXPECT_EQ(messageFor(5, 0, fits), "no error");
  EXPECT_EQ(messageFor(5, 1, 8), "no error");
  EXPECT_EQ(messageFor(5, 2, 1000), "no error");
  EXPECT_NE(messageFor(5, 0, 8).find(
                "8 at sample 5, position [0], which takes [-3, 2]"),
            std::string::npos);
  EXPECT_NE(messageFor(6, 1, -10).find(
                "-10 at sample 6, position [1], which takes [-9, 8]"),
            std::string::npos);
  // What is made up fits too.
  EXPECT_EQ(errorOf([&] { DataSet(plan, syntheticData(plan, 64)); }),
            "no error");
  range = {-3, 2, -9, 8};
  EXPECT_NE(errorOf([&] { Plan::parse(json.dump()); }).find("feeds[2].range"),
            std::string::npos);
  range = {-3, 2, 8, -9, 0, 1};
  EXPECT_NE(errorOf([&] { Plan::parse(json.dump()); }).find("range[2]"),
            std::string::npos);
}

TEST(DataSetTest, CountsForRandomNumbers) {
  auto json = toy::trainingPlan({});
  json["feeds"].push_back({{"name", "random_counter"},
                           {"role", "random_counter"},
                           {"dtype", "i32"},
                           {"shape", {5}},
                           {"batched", false}});
  Plan plan = Plan::parse(json.dump());
  DataSet data(plan, toy::data(16));
  EXPECT_EQ(data.getSamples(), 16u);
  EXPECT_EQ(syntheticData(plan, 16).count("random_counter"), 0u);
  Step step(plan);
  step.number = 7;
  step.seed = (uint64_t(5) << 32) + 3;
  data.fill(step, {0, 1, 2, 3, 4, 5, 6, 7}, 0);
  for (unsigned k = 0; k < plan.microbatches; ++k) {
    const auto *words = reinterpret_cast<uint32_t *>(step.feeds[2].at(k));
    EXPECT_EQ(words[0], 3u);
    EXPECT_EQ(words[1], 5u);
    EXPECT_EQ(words[2], 7u);
    EXPECT_EQ(words[3], k * toy::microbatchSize);
    EXPECT_EQ(words[4], 8u);
  }
  data.fill(step, {0, 1, 2}, 0);
  EXPECT_EQ(reinterpret_cast<uint32_t *>(step.feeds[2].at(0))[4], 3u);
}

} // namespace
