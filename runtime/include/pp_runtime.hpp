//===- pp_runtime.hpp - pp_runtime.h for C++17 ------------------*- C++ -*-===//
//
// Header only. Errors are exceptions, programs close themselves:
//
//   pp::Program program("./model.so", pp::Mode::Train, {"--lr=0.001"});
//   std::vector<float> x(32 * 784);
//   std::vector<int64_t> y(32);
//   double loss = program.trainStep({{"x", x, {32, 784}}, {"target", y, {32}}})
//                     .loss;
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_HPP
#define PP_RUNTIME_HPP

#include "pp_runtime.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pp {

/// What a function of the interface returned.
class Error : public std::runtime_error {
public:
  Error(pp_error_kind kind, const std::string &message)
      : std::runtime_error(message), kind(kind) {}
  pp_error_kind getKind() const { return kind; }

private:
  pp_error_kind kind;
};

/// Throws Error unless `error` is null; frees it.
inline void check(pp_error *error) {
  if (!error)
    return;
  Error thrown(pp_error_get_kind(error), pp_error_message(error));
  pp_error_free(error);
  throw thrown;
}

/// The type of numbers of C++.
template <typename T> constexpr pp_data_type dataTypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return PP_F32;
  else if constexpr (std::is_same_v<T, double>)
    return PP_F64;
  else if constexpr (std::is_same_v<T, bool>)
    return PP_BOOL;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 8   ? PP_I64
           : sizeof(T) == 4 ? PP_I32
           : sizeof(T) == 2 ? PP_I16
                            : PP_I8;
  else {
    static_assert(std::is_integral_v<T>, "numbers that tensors hold");
    return sizeof(T) == 8   ? PP_U64
           : sizeof(T) == 4 ? PP_U32
           : sizeof(T) == 2 ? PP_U16
                            : PP_U8;
  }
}

/// A tensor in memory of the caller.
class Tensor {
public:
  Tensor(std::string name, pp_data_type type, void *data,
         std::vector<int64_t> shape)
      : name(std::move(name)), type(type), data(data), shape(std::move(shape)) {
  }
  /// Of a contiguous container with as many numbers as the shape has.
  template <typename Container>
  Tensor(std::string name, Container &values, std::vector<int64_t> shape)
      : Tensor(std::move(name),
               dataTypeOf<std::remove_cv_t<
                   std::remove_pointer_t<decltype(values.data())>>>(),
               const_cast<void *>(static_cast<const void *>(values.data())),
               std::move(shape)) {
    int64_t count = 1;
    for (int64_t dimension : this->shape)
      count *= dimension;
    if (count != static_cast<int64_t>(values.size()))
      throw Error(PP_ERROR_USAGE, "tensor '" + this->name +
                                      "': " + std::to_string(values.size()) +
                                      " numbers are not what its shape has");
  }

  /// Lives as long as the object.
  pp_tensor get() const {
    return {name.c_str(), type, static_cast<int32_t>(shape.size()),
            shape.data(), data};
  }

private:
  std::string name;
  pp_data_type type;
  void *data;
  std::vector<int64_t> shape;
};

enum class Mode { Infer = PP_INFER, Train = PP_TRAIN };

/// An opened model. Movable; what pp_runtime.h says of threads holds.
class Program {
public:
  using Tensors = std::vector<Tensor>;
  using Progress = std::function<bool(const pp_step_result &)>;

  Program(const std::string &path, Mode mode,
          const std::vector<std::string> &flags = {}) {
    std::vector<const char *> texts;
    for (const std::string &flag : flags)
      texts.push_back(flag.c_str());
    pp_program *opened = nullptr;
    check(pp_program_open(path.c_str(), static_cast<pp_mode>(mode),
                          texts.data(), texts.size(), &opened));
    program.reset(opened);
  }

  /// For functions that this class lacks.
  pp_program *get() const { return program.get(); }
  uint64_t batchSize() const { return pp_batch_size(get()); }
  std::vector<pp_port> inputs(Mode mode) const {
    std::vector<pp_port> ports(
        pp_input_count(get(), static_cast<pp_mode>(mode)));
    for (size_t i = 0; i < ports.size(); ++i)
      check(pp_get_input(get(), static_cast<pp_mode>(mode), i, &ports[i]));
    return ports;
  }
  std::vector<pp_port> outputs() const {
    std::vector<pp_port> ports(pp_output_count(get()));
    for (size_t i = 0; i < ports.size(); ++i)
      check(pp_get_output(get(), i, &ports[i]));
    return ports;
  }

  pp_step_result trainStep(const Tensors &inputs) {
    pp_step_result result;
    std::vector<pp_tensor> all = list(inputs);
    check(pp_train_step(get(), all.data(), all.size(), &result));
    return result;
  }
  void submit(const Tensors &inputs) {
    std::vector<pp_tensor> all = list(inputs);
    check(pp_train_submit(get(), all.data(), all.size()));
  }
  pp_step_result wait() {
    pp_step_result result;
    check(pp_train_wait(get(), &result));
    return result;
  }
  size_t stepsInFlight() const { return pp_steps_in_flight(get()); }
  size_t mostStepsInFlight() const { return pp_most_steps_in_flight(get()); }
  /// Goes on as long as `progress`, if there is one, returns true. What it
  /// throws ends the training and is thrown.
  void train(const Tensors &inputs, uint64_t epochs, bool shuffle = true,
             const Progress &progress = {}) {
    struct Call {
      const Progress *progress;
      std::exception_ptr thrown;
    } call{&progress, nullptr};
    auto report = [](const pp_step_result *result, void *data) -> int {
      Call &call = *static_cast<Call *>(data);
      try {
        return call.thrown || !(*call.progress)(*result);
      } catch (...) {
        call.thrown = std::current_exception();
        return 1;
      }
    };
    std::vector<pp_tensor> all = list(inputs);
    pp_error *error =
        pp_train(get(), all.data(), all.size(), epochs, shuffle,
                 progress ? static_cast<pp_progress>(report) : nullptr, &call);
    if (call.thrown) {
      pp_error_free(error);
      std::rethrow_exception(call.thrown);
    }
    check(error);
  }

  double learningRate() const { return scalar("lr"); }
  void setLearningRate(double rate) { setScalar("lr", rate); }
  double scalar(const std::string &name) const {
    double value = 0;
    check(pp_get_scalar(get(), name.c_str(), &value));
    return value;
  }
  void setScalar(const std::string &name, double value) {
    check(pp_set_scalar(get(), name.c_str(), value));
  }

  void infer(const Tensors &inputs, const Tensors &outputs) {
    std::vector<pp_tensor> in = list(inputs), out = list(outputs);
    check(pp_infer(get(), in.data(), in.size(), out.data(), out.size()));
  }
  std::vector<double> evaluate(const Tensors &inputs,
                               const std::vector<std::string> &metrics) {
    std::vector<pp_tensor> all = list(inputs);
    std::vector<const char *> names;
    for (const std::string &metric : metrics)
      names.push_back(metric.c_str());
    std::vector<double> values(metrics.size());
    check(pp_eval_step(get(), all.data(), all.size(), names.data(),
                       names.size(), values.data()));
    return values;
  }

  std::vector<pp_weight> weights() const {
    std::vector<pp_weight> all(pp_weight_count(get()));
    for (size_t i = 0; i < all.size(); ++i)
      check(pp_get_weight_info(get(), i, &all[i]));
    return all;
  }
  void getWeight(const Tensor &target) {
    pp_tensor tensor = target.get();
    check(pp_get_weight(get(), &tensor));
  }
  void setWeight(const Tensor &source) {
    pp_tensor tensor = source.get();
    check(pp_set_weight(get(), &tensor));
  }
  void getGradient(const Tensor &target) {
    pp_tensor tensor = target.get();
    check(pp_get_gradient(get(), &tensor));
  }
  std::vector<char> parameters() {
    std::vector<char> bytes(pp_parameters_bytes(get()));
    check(pp_get_parameters(get(), bytes.data(), bytes.size()));
    return bytes;
  }
  void setParameters(const std::vector<char> &bytes) {
    check(pp_set_parameters(get(), bytes.data(), bytes.size()));
  }

  void save(const std::string &path) { check(pp_save(get(), path.c_str())); }
  void load(const std::string &path) { check(pp_load(get(), path.c_str())); }
  void loadWeights(const std::string &path) {
    check(pp_load_weights(get(), path.c_str()));
  }
  void exportModel(const std::string &path, const std::string &model = "") {
    check(pp_export(get(), path.c_str(),
                    model.empty() ? nullptr : model.c_str()));
  }

private:
  static std::vector<pp_tensor> list(const Tensors &tensors) {
    std::vector<pp_tensor> result;
    for (const Tensor &tensor : tensors)
      result.push_back(tensor.get());
    return result;
  }

  struct Close {
    void operator()(pp_program *program) const { pp_program_close(program); }
  };
  std::unique_ptr<pp_program, Close> program;
};

} // namespace pp

#endif // PP_RUNTIME_HPP
