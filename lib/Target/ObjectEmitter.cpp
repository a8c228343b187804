//===- ObjectEmitter.cpp - From the code module to an object file ---------===//

#include "pp/Target/ObjectEmitter.h"
#include "CodeGeneration.h"
#include "ExpandBFloat16.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pprt/pprt.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <deque>

using namespace pp;

namespace {

class ObjectBuilder {
public:
  llvm::Expected<std::vector<std::string>>
  run(llvm::ArrayRef<ProgramPair> buckets, const ObjectOptions &options) {
    if (llvm::Error error = makeModule(options))
      return std::move(error);
    llvm::SmallVector<llvm::Constant *> pairs;
    Pair last{};
    for (auto [number, bucket] : llvm::enumerate(buckets)) {
      std::string suffix =
          buckets.size() > 1 ? "_" + std::to_string(number) : "";
      auto pair = addPair(bucket, suffix);
      if (!pair)
        return pair.takeError();
      last = *pair;
      pairs.push_back(llvm::ConstantStruct::getAnon(
          context, {last.training, last.inference}));
    }
    addTable(last, pairs);
    mlir::ModuleOp inference = buckets.front().inference.module;
    return generateCode(*module, target, *inference.getContext());
  }

private:
  llvm::Error makeModule(const ObjectOptions &options) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    target = CodeTarget::of(options.cpu);
    auto machine = target.makeMachine();
    if (!machine)
      return machine.takeError();
    module = std::make_unique<llvm::Module>("pp", context);
    module->setDataLayout((*machine)->createDataLayout());
    module->setTargetTriple((*machine)->getTargetTriple());
    pointer = llvm::PointerType::get(context, 0);
    i64 = llvm::Type::getInt64Ty(context);
    return llvm::Error::success();
  }

  struct Pair {
    llvm::Constant *training, *inference;
  };

  llvm::Expected<Pair> addPair(const ProgramPair &sources,
                               llvm::StringRef suffix) {
    llvm::Constant *none = llvm::ConstantPointerNull::get(pointer);
    Pair pair{none, none};
    for (auto [source, name, program] :
         {std::tuple(&sources.training, "training", &pair.training),
          std::tuple(&sources.inference, "inference", &pair.inference)}) {
      if (!source->module)
        continue;
      auto added = addProgram(*source, (name + suffix).str());
      if (!added)
        return added.takeError();
      *program = *added;
    }
    return pair;
  }

  /// Adds a program's code and plan; returns its pp_pipeline.
  llvm::Expected<llvm::Constant *> addProgram(const ProgramSource &source,
                                              llvm::StringRef name) {
    if (llvm::Error error = addCode(source.module, name))
      return std::move(error);
    return makeProgram(source, name);
  }

  /// Adds the functions of a program, with its name before theirs.
  llvm::Error addCode(mlir::ModuleOp program, llvm::StringRef name) {
    auto code = program.lookupSymbol<mlir::ModuleOp>(codeModuleName);
    if (!code)
      return llvm::createStringError("the program has no code");
    auto translated = mlir::translateModuleToLLVMIR(code, context, name);
    if (!translated)
      return llvm::createStringError("the code cannot be translated to LLVM");
    mockFacts.clear();
    for (auto function : code.getOps<mlir::LLVM::LLVMFuncOp>())
      if (auto facts = function->getAttrOfType<pipeline::MockKernelAttr>(
              pipeline::mockKernelAttrName))
        mockFacts.push_back({function.getName().str(), facts});
    translated->setDataLayout(module->getDataLayout());
    translated->setTargetTriple(module->getTargetTriple());
    if (llvm::Error error = expandBFloat16(*translated))
      return error;
    // Both programs live in one module under names of their own.
    for (llvm::Function &function : *translated)
      if (!function.isDeclaration()) {
        function.setName(name + "_" + function.getName());
        // Visible until the tables refer to them, then internal.
        function.setLinkage(llvm::GlobalValue::ExternalLinkage);
      }
    if (llvm::Linker::linkModules(*module, std::move(translated)))
      return llvm::createStringError("the code cannot be linked");
    for (llvm::Function &function : *module)
      if (!function.isDeclaration()) {
        function.setLinkage(llvm::GlobalValue::InternalLinkage);
        function.addFnAttr("target-cpu", target.cpu);
        function.addFnAttr("target-features", target.features);
        function.addFnAttr("prefer-vector-width", "512");
        function.addFnAttr(llvm::Attribute::NoUnwind);
      }
    return llvm::Error::success();
  }

  llvm::Constant *functionNamed(const llvm::Twine &name) {
    llvm::SmallString<64> storage;
    if (llvm::Function *function =
            module->getFunction(name.toStringRef(storage)))
      return function;
    return llvm::ConstantPointerNull::get(pointer);
  }

  llvm::Constant *constant(llvm::Constant *value, const llvm::Twine &name) {
    return new llvm::GlobalVariable(
        *module, value->getType(),
        /*isConstant=*/true, llvm::GlobalValue::InternalLinkage, value, name);
  }

  llvm::Constant *makeProgram(const ProgramSource &source,
                              llvm::StringRef name) {
    llvm::Constant *plan = constant(
        llvm::ConstantDataArray::getString(context, source.plan, false),
        name + "_plan");
    uint64_t count = 0;
    while (module->getFunction(
        (name + "_stage" + llvm::Twine(count) + "_F").str()))
      ++count;
    // The fields of pp_stage_functions.
    constexpr Phase phases[] = {Phase::Forward, Phase::BackwardInput,
                                Phase::BackwardWeight, Phase::Update,
                                Phase::Prepare};
    auto *stageType = llvm::ArrayType::get(pointer, std::size(phases));
    llvm::SmallVector<llvm::Constant *> stages;
    for (uint64_t stage = 0; stage < count; ++stage) {
      llvm::SmallVector<llvm::Constant *> functions;
      for (Phase phase : phases)
        functions.push_back(functionNamed(name + "_stage" + llvm::Twine(stage) +
                                          "_" +
                                          llvm::StringRef(letterOf(phase))));
      stages.push_back(llvm::ConstantArray::get(stageType, functions));
    }
    llvm::Constant *stageTable =
        constant(llvm::ConstantArray::get(
                     llvm::ArrayType::get(stageType, count), stages),
                 name + "_stages");
    llvm::Constant *fields[] = {plan,
                                llvm::ConstantInt::get(i64, source.plan.size()),
                                stageTable,
                                llvm::ConstantInt::get(i64, count),
                                functionNamed(name + "_optimizer"),
                                functionNamed(name + "_round"),
                                deviceCode(source, name),
                                mockKernels(name),
                                llvm::ConstantInt::get(i64, mockFacts.size())};
    return constant(llvm::ConstantStruct::getAnon(context, fields),
                    name + "_program");
  }

  llvm::Constant *deviceCode(const ProgramSource &source,
                             llvm::StringRef name) {
    if (!source.device)
      return llvm::ConstantPointerNull::get(pointer);
    auto bytes = [&](const std::string &text, bool isText,
                     const llvm::Twine &part) -> llvm::Constant * {
      if (text.empty())
        return llvm::ConstantPointerNull::get(pointer);
      return constant(llvm::ConstantDataArray::getString(context, text, isText),
                      name + "_" + part);
    };
    const std::string &binary = source.device->binary;
    const std::string &assembly = source.device->assembly;
    llvm::Constant *fields[] = {bytes(binary, /*isText=*/false, "cubin"),
                                llvm::ConstantInt::get(i64, binary.size()),
                                bytes(assembly, /*isText=*/true, "ptx"),
                                llvm::ConstantInt::get(i64, assembly.size())};
    return constant(llvm::ConstantStruct::getAnon(context, fields),
                    name + "_device_code");
  }

  /// The table of pp_mock_kernel; null where there are none.
  llvm::Constant *mockKernels(llvm::StringRef name) {
    if (mockFacts.empty())
      return llvm::ConstantPointerNull::get(pointer);
    llvm::SmallVector<llvm::Constant *> kernels;
    for (auto &[kernel, facts] : mockFacts) {
      llvm::Function *run = addThread(name, kernel);
      llvm::Constant *fields[] = {
          constant(llvm::ConstantDataArray::getString(context, kernel, true),
                   name + "_" + kernel + "_name"),
          run,
          llvm::ConstantInt::get(
              i64,
              module->getFunction((name + "_" + kernel).str())->arg_size() - 3),
          llvm::ConstantInt::get(i64, facts.getShared()),
          llvm::ConstantInt::get(i64, facts.getWaits())};
      kernels.push_back(llvm::ConstantStruct::getAnon(context, fields));
    }
    auto *type =
        llvm::ArrayType::get(kernels.front()->getType(), kernels.size());
    return constant(llvm::ConstantArray::get(type, kernels),
                    name + "_mock_kernels");
  }

  /// pp_mock_kernel::run: calls a function that takes its arguments one by
  /// one.
  llvm::Function *addThread(llvm::StringRef name, llvm::StringRef kernel) {
    llvm::Function *callee = module->getFunction((name + "_" + kernel).str());
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                         {pointer, pointer, i64, i64},
                                         /*isVarArg=*/false);
    auto *thread =
        llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                               name + "_thread_of_" + kernel, module.get());
    llvm::IRBuilder<> builder(
        llvm::BasicBlock::Create(context, "entry", thread));
    llvm::SmallVector<llvm::Value *> arguments;
    unsigned count = callee->arg_size() - 3;
    for (unsigned i = 0; i < count; ++i)
      arguments.push_back(builder.CreateLoad(
          callee->getArg(i)->getType(),
          builder.CreateConstGEP1_64(pointer, thread->getArg(0), i)));
    for (unsigned i = 1; i < 4; ++i)
      arguments.push_back(thread->getArg(i));
    builder.CreateCall(callee, arguments);
    builder.CreateRetVoid();
    return thread;
  }

  void addTable(Pair programs, llvm::ArrayRef<llvm::Constant *> pairs) {
    auto *i32 = llvm::Type::getInt32Ty(context);
    uint64_t count = pairs.size() > 1 ? pairs.size() : 0;
    llvm::Constant *buckets = llvm::ConstantPointerNull::get(pointer);
    if (count)
      buckets = constant(
          llvm::ConstantArray::get(
              llvm::ArrayType::get(pairs.front()->getType(), count), pairs),
          "buckets");
    llvm::Constant *fields[] = {llvm::ConstantInt::get(i32, PP_ABI_VERSION),
                                llvm::ConstantInt::get(i32, count),
                                programs.training, programs.inference, buckets};
    llvm::Constant *table = llvm::ConstantStruct::getAnon(context, fields);
    new llvm::GlobalVariable(*module, table->getType(), /*isConstant=*/true,
                             llvm::GlobalValue::ExternalLinkage, table,
                             "pp_binary_table");
  }

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  CodeTarget target;
  /// Kernels for the mock device of the program that was added last, with what
  /// the pass says about them.
  std::vector<std::pair<std::string, pipeline::MockKernelAttr>> mockFacts;
  llvm::PointerType *pointer = nullptr;
  llvm::Type *i64 = nullptr;
};

} // namespace

llvm::Expected<std::vector<std::string>>
pp::emitObjects(llvm::ArrayRef<ProgramPair> buckets,
                const ObjectOptions &options) {
  for (const ProgramPair &pair : buckets)
    for (const ProgramSource *source : {&pair.training, &pair.inference})
      if (source->module) {
        mlir::ModuleOp module = source->module;
        mlir::registerBuiltinDialectTranslation(*module.getContext());
        mlir::registerLLVMDialectTranslation(*module.getContext());
      }
  return ObjectBuilder().run(buckets, options);
}

namespace {

/// Files next to a result, so that the last step is a rename. Those that are
/// left are removed.
class TemporaryFiles {
public:
  explicit TemporaryFiles(llvm::StringRef result) : result(result) {}

  llvm::Expected<std::string> create(llvm::StringRef suffix) {
    llvm::SmallString<128> path;
    if (std::error_code error = llvm::sys::fs::createUniqueFile(
            result + "-%%%%%%%%" + suffix, path))
      return llvm::createStringError("cannot write next to '%s': %s",
                                     result.str().c_str(),
                                     error.message().c_str());
    removers.emplace_back(path);
    return std::string(path);
  }

private:
  llvm::StringRef result;
  std::deque<llvm::FileRemover> removers;
};

} // namespace

llvm::Error pp::linkBinary(llvm::ArrayRef<std::string> objects,
                           llvm::StringRef path, llvm::StringRef linkFile,
                           llvm::ArrayRef<std::string> devices,
                           BinaryKind kind) {
  llvm::SmallString<128> ofLibrary(llvm::sys::path::parent_path(linkFile));
  llvm::sys::path::append(ofLibrary, "pp_runtime.link");
  if (kind == BinaryKind::Library)
    linkFile = ofLibrary;
  auto arguments = llvm::MemoryBuffer::getFile(linkFile);
  if (!arguments)
    return llvm::createStringError(
        "cannot read '%s', which says how to link with the runtime: %s",
        linkFile.str().c_str(), arguments.getError().message().c_str());
  auto linker = llvm::sys::findProgramByName("clang++-22");
  for (const char *name : {"clang++", "c++", "g++"})
    if (!linker)
      linker = llvm::sys::findProgramByName(name);
  if (!linker)
    return llvm::createStringError(
        "no C++ compiler found to link with (clang++-22, clang++, c++, g++)");

  TemporaryFiles files(path);
  auto binaryPath = files.create(".tmp");
  if (!binaryPath)
    return binaryPath.takeError();
  std::vector<std::string> command = {*linker, "-o", *binaryPath,
                                      "-Wl,--build-id=none"};
  for (const std::string &object : objects) {
    auto objectPath = files.create(".o");
    if (!objectPath)
      return objectPath.takeError();
    std::error_code error;
    llvm::raw_fd_ostream file(*objectPath, error);
    file << object;
    file.close();
    if (error || file.has_error())
      return llvm::createStringError("cannot write '%s'", objectPath->c_str());
    command.push_back(*objectPath);
  }
  if (llvm::sys::findProgramByName("ld.lld-22") ||
      llvm::sys::findProgramByName("ld.lld"))
    if (llvm::StringRef(*linker).contains("clang"))
      command.push_back("-fuse-ld=lld");
  for (const std::string &device : devices) {
    llvm::SmallString<128> library(llvm::sys::path::parent_path(linkFile));
    llvm::sys::path::append(library, "libpprt_" + device + ".a");
    if (!llvm::sys::fs::exists(library))
      return llvm::createStringError("there is no device '%s': no file '%s'",
                                     device.c_str(), library.c_str());
    // Nothing refers to a device: it registers itself.
    for (llvm::StringRef argument :
         {llvm::StringRef("-Wl,--whole-archive"), library.str(),
          llvm::StringRef("-Wl,--no-whole-archive")})
      command.push_back(argument.str());
  }
  if (kind == BinaryKind::Library)
    for (const char *argument : {"-shared", "-Wl,-z,defs"})
      command.push_back(argument);
  llvm::SmallVector<llvm::StringRef> lines;
  (*arguments)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    llvm::SmallString<128> beside(llvm::sys::path::parent_path(linkFile));
    llvm::sys::path::append(beside, line);
    bool isBeside = llvm::sys::fs::exists(beside);
    command.push_back(isBeside ? beside.str().str() : line.str());
    // So that whatever opens the model finds the runtime.
    llvm::SmallString<128> real;
    if (kind == BinaryKind::Library && isBeside &&
        !llvm::sys::fs::real_path(beside, real))
      command.push_back(
          ("-Wl,-rpath," + llvm::sys::path::parent_path(real)).str());
  }
  llvm::SmallVector<llvm::StringRef> references(command.begin(), command.end());
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, references, std::nullopt, {},
                                         0, 0, &message);
  if (status != 0)
    return llvm::createStringError(
        "linking failed%s%s", message.empty() ? "" : ": ", message.c_str());
  if (std::error_code error = llvm::sys::fs::rename(*binaryPath, path))
    return llvm::createStringError("cannot write '%s': %s", path.str().c_str(),
                                   error.message().c_str());
  return llvm::Error::success();
}
