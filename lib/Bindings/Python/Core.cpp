//===- Core.cpp - pp_mlir._core: the C interfaces for Python --------------===//
//
// Thin: names, flags and tensors go through. What users see is in pp_mlir. The
// interpreter's lock is released while the library works.
//
//===----------------------------------------------------------------------===//
#include "pp_compiler.h"
#include "pp_runtime.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>

namespace nb = nanobind;

namespace {

using Flags = std::vector<std::string>;
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// The class of Python for errors, pp_mlir.Error, which is called with kind and
/// message.
PyObject *makeException = nullptr;

void raise(const pp::Error &error) {
  nb::object exception = nb::handle(makeException)(
      static_cast<int>(error.getKind()), error.what());
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())),
                  exception.ptr());
}

struct TypeName {
  pp_data_type type;
  const char *name; // NumPy's
  uint8_t code;     // DLPack's
  uint8_t bits;
};
constexpr auto integer = static_cast<uint8_t>(nb::dlpack::dtype_code::Int);
constexpr auto natural = static_cast<uint8_t>(nb::dlpack::dtype_code::UInt);
constexpr auto real = static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
constexpr auto boolean = static_cast<uint8_t>(nb::dlpack::dtype_code::Bool);
constexpr auto brain = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
constexpr TypeName typeNames[] = {
    {PP_F32, "float32", real, 32},   {PP_F64, "float64", real, 64},
    {PP_I64, "int64", integer, 64},  {PP_I32, "int32", integer, 32},
    {PP_I8, "int8", integer, 8},     {PP_U8, "uint8", natural, 8},
    {PP_BOOL, "bool", boolean, 8},   {PP_BF16, "bfloat16", brain, 16},
    {PP_F16, "float16", real, 16},   {PP_I16, "int16", integer, 16},
    {PP_U16, "uint16", natural, 16}, {PP_U32, "uint32", natural, 32},
    {PP_U64, "uint64", natural, 64},
};

const char *nameOf(pp_data_type type) {
  for (const TypeName &each : typeNames)
    if (each.type == type)
      return each.name;
  return "";
}

pp_data_type typeOf(nb::dlpack::dtype type, const std::string &name) {
  for (const TypeName &each : typeNames)
    if (each.code == type.code && each.bits == type.bits && type.lanes == 1)
      return each.type;
  throw pp::Error(PP_ERROR_USAGE,
                  "array '" + name + "': numbers of such a type are not taken");
}

/// Refers to the array's memory.
template <typename Array>
pp::Tensor refer(const std::string &name, const Array &array) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < array.ndim(); ++i)
    shape.push_back(static_cast<int64_t>(array.shape(i)));
  return {name, typeOf(array.dtype(), name),
          const_cast<void *>(static_cast<const void *>(array.data())),
          std::move(shape)};
}

using Named = std::vector<std::pair<std::string, ReadArray>>;

pp::Program::Tensors refer(const Named &arrays) {
  pp::Program::Tensors tensors;
  for (const auto &[name, array] : arrays)
    tensors.push_back(refer(name, array));
  return tensors;
}

/// (name, type, shape) of a tensor.
nb::tuple describe(const pp_tensor &tensor) {
  nb::list shape;
  for (int32_t i = 0; i < tensor.rank; ++i)
    shape.append(tensor.shape[i]);
  return nb::make_tuple(tensor.name, nameOf(tensor.type), nb::tuple(shape));
}

/// (name, type, shape, is_batched, is_target) of a port.
nb::tuple describe(const pp_port &port) {
  return nb::make_tuple(port.tensor.name, nameOf(port.tensor.type),
                        nb::tuple(describe(port.tensor)[2]),
                        bool(port.is_batched), bool(port.is_target));
}

/// The result of `work`, which uses no object of Python.
template <typename Work> auto unlocked(const Work &work) {
  nb::gil_scoped_release released;
  return work();
}

std::vector<const char *> pointersTo(const Flags &flags) {
  std::vector<const char *> pointers;
  for (const std::string &flag : flags)
    pointers.push_back(flag.c_str());
  return pointers;
}

/// A text of the C interface.
std::string take(char *text) {
  std::string result = text ? text : "";
  pp_text_free(text);
  return result;
}

std::string importModel(const std::string &model, const Flags &flags) {
  return unlocked([&] {
    char *ir = nullptr;
    auto pointers = pointersTo(flags);
    pp::check(pp_import(model.c_str(), pointers.data(), pointers.size(), &ir));
    return take(ir);
  });
}

std::pair<std::string, std::string> planModel(const std::string &model,
                                              const Flags &flags) {
  return unlocked([&] {
    char *plan = nullptr, *report = nullptr;
    auto pointers = pointersTo(flags);
    pp::check(pp_plan(model.c_str(), pointers.data(), pointers.size(), &plan,
                      &report));
    std::string text = take(plan);
    return std::pair(std::move(text), take(report));
  });
}

void compileModel(const std::string &model, const std::string &plan,
                  const Flags &flags, const std::string &output) {
  unlocked([&] {
    auto pointers = pointersTo(flags);
    pp::check(pp_compile(model.c_str(), plan.empty() ? nullptr : plan.c_str(),
                         pointers.data(), pointers.size(), output.c_str()));
  });
}

/// A program until it is closed, for which others may wait without the
/// interpreter.
class Open {
public:
  Open(const std::string &path, bool trains, const Flags &flags) {
    unlocked([&] {
      program.emplace(path, trains ? pp::Mode::Train : pp::Mode::Infer, flags);
    });
  }
  ~Open() { close(); }
  void close() {
    unlocked([&] { program.reset(); });
  }
  pp::Program &get() {
    if (!program)
      throw pp::Error(PP_ERROR_USAGE, "the program is closed");
    return *program;
  }

private:
  std::optional<pp::Program> program;
};

void bindProgram(nb::module_ &module) {
  using pp::Mode;
  using pp::Program;
  nb::class_<pp_step_result>(
      module, "StepResult",
      "What a step of training has given. `gradient_norm` is NaN unless it was "
      "asked for, `learning_rate` where the optimizer has none.")
      .def_ro("step", &pp_step_result::step)
      .def_ro("loss", &pp_step_result::loss)
      .def_ro("learning_rate", &pp_step_result::learning_rate)
      .def_ro("gradient_norm", &pp_step_result::gradient_norm)
      .def_prop_ro(
          "is_skipped",
          [](const pp_step_result &result) { return result.is_skipped != 0; })
      .def("__repr__", [](const pp_step_result &result) {
        return "StepResult(step=" + std::to_string(result.step) +
               ", loss=" + std::to_string(result.loss) + ")";
      });
  nb::class_<Open>(module, "Program")
      .def(nb::init<const std::string &, bool, const Flags &>(),
           nb::arg("path"), nb::arg("trains"), nb::arg("flags"))
      .def("close", &Open::close)
      .def_prop_ro("batch_size",
                   [](Open &self) { return self.get().batchSize(); })
      .def("inputs",
           [](Open &self, bool trains) {
             nb::list list;
             for (const pp_port &port :
                  self.get().inputs(trains ? Mode::Train : Mode::Infer))
               list.append(describe(port));
             return list;
           })
      .def("outputs",
           [](Open &self) {
             nb::list list;
             for (const pp_port &port : self.get().outputs())
               list.append(describe(port));
             return list;
           })
      .def("weights",
           [](Open &self) {
             nb::list list;
             for (const pp_weight &weight : self.get().weights())
               list.append(nb::make_tuple(describe(weight.tensor),
                                          bool(weight.is_trained)));
             return list;
           })
      .def("train_step",
           [](Open &self, const Named &arrays) {
             auto tensors = refer(arrays);
             return unlocked([&] { return self.get().trainStep(tensors); });
           })
      .def("submit",
           [](Open &self, const Named &arrays) {
             auto tensors = refer(arrays);
             unlocked([&] { self.get().submit(tensors); });
           })
      .def("wait",
           [](Open &self) {
             return unlocked([&] { return self.get().wait(); });
           })
      .def_prop_ro("steps_in_flight",
                   [](Open &self) {
                     return unlocked(
                         [&] { return self.get().stepsInFlight(); });
                   })
      .def_prop_ro("most_steps_in_flight",
                   [](Open &self) { return self.get().mostStepsInFlight(); })
      .def(
          "train",
          [](Open &self, const Named &arrays, uint64_t epochs, bool shuffle,
             const std::optional<nb::callable> &progress) {
            auto tensors = refer(arrays);
            // An interrupt (Ctrl-C) waits for the interpreter.
            auto report = [&](const pp_step_result &result) {
              nb::gil_scoped_acquire acquired;
              if (PyErr_CheckSignals() != 0)
                throw nb::python_error();
              return !progress || !nb::cast<bool>((*progress)(result));
            };
            unlocked(
                [&] { self.get().train(tensors, epochs, shuffle, report); });
          },
          nb::arg("arrays"), nb::arg("epochs"), nb::arg("shuffle"),
          nb::arg("progress").none())
      .def("get_scalar",
           [](Open &self, const std::string &name) {
             return unlocked([&] { return self.get().scalar(name); });
           })
      .def("set_scalar",
           [](Open &self, const std::string &name, double value) {
             return unlocked([&] { return self.get().setScalar(name, value); });
           })
      .def("infer",
           [](Open &self, const Named &arrays,
              const std::vector<std::pair<std::string, WriteArray>> &outputs) {
             auto inputs = refer(arrays);
             Program::Tensors results;
             for (const auto &[name, array] : outputs)
               results.push_back(refer(name, array));
             unlocked([&] { self.get().infer(inputs, results); });
           })
      .def("evaluate",
           [](Open &self, const Named &arrays, const Flags &metrics) {
             auto tensors = refer(arrays);
             return unlocked(
                 [&] { return self.get().evaluate(tensors, metrics); });
           })
      .def("get_weight",
           [](Open &self, const std::string &name, const WriteArray &array) {
             pp::Tensor tensor = refer(name, array);
             unlocked([&] { self.get().getWeight(tensor); });
           })
      .def("set_weight",
           [](Open &self, const std::string &name, const ReadArray &array) {
             pp::Tensor tensor = refer(name, array);
             unlocked([&] { self.get().setWeight(tensor); });
           })
      .def("get_gradient",
           [](Open &self, const std::string &name, const WriteArray &array) {
             pp::Tensor tensor = refer(name, array);
             unlocked([&] { self.get().getGradient(tensor); });
           })
      .def("save",
           [](Open &self, const std::string &path) {
             return unlocked([&] { return self.get().save(path); });
           })
      .def("load",
           [](Open &self, const std::string &path) {
             return unlocked([&] { return self.get().load(path); });
           })
      .def("load_weights",
           [](Open &self, const std::string &path) {
             return unlocked([&] { return self.get().loadWeights(path); });
           })
      .def("export", [](Open &self, const std::string &path,
                        const std::string &model) {
        return unlocked([&] { return self.get().exportModel(path, model); });
      });
}

} // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);
  module.def("version", [] { return pp_version(); });
  module.def("set_exception",
             [](nb::object make) { makeException = make.release().ptr(); });
  module.def("import_model", importModel);
  module.def("plan", planModel);
  module.def("compile", compileModel);
  nb::register_exception_translator(
      [](const std::exception_ptr &thrown, void *) {
        try {
          std::rethrow_exception(thrown);
        } catch (const pp::Error &error) {
          raise(error);
        }
      });
  module.def("set_message_handler", [](std::optional<nb::callable> handler) {
    // The last one stays, as another thread may be about to call it.
    static std::vector<nb::object> *handlers = new std::vector<nb::object>();
    if (handler)
      handlers->push_back(*handler);
    PyObject *last = handler ? handler->ptr() : nullptr;
    // A message may be on its way, and wait for the interpreter.
    nb::gil_scoped_release released;
    if (!last)
      return pp_set_message_handler(nullptr, nullptr);
    pp_set_message_handler(
        [](const char *text, void *data) {
          nb::gil_scoped_acquire acquired;
          try {
            nb::handle(static_cast<PyObject *>(data))(text);
          } catch (nb::python_error &error) {
            error.discard_as_unraisable("pp_mlir's message handler");
          }
        },
        last);
  });
  bindProgram(module);
}
