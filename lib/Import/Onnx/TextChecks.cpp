//===- TextChecks.cpp - Names are text ------------------------------------===//
#include "TextChecks.h"
#include "llvm/Support/ConvertUTF.h"

#include <google/protobuf/descriptor.h>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

static bool isText(const std::string &text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  return llvm::isLegalUTF8String(&begin, begin + text.size());
}

/// `path` leads to `message`, for example "graph.node[3].".
static void check(const Message &message, const std::string &path,
                  pp::onnx::DiagnosticSink &sink) {
  const Reflection &reflection = *message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    bool isString = field->type() == FieldDescriptor::TYPE_STRING;
    bool isMessage = field->type() == FieldDescriptor::TYPE_MESSAGE;
    if (!isString && !isMessage)
      continue;
    int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string place = path + std::string(field->name());
      if (field->is_repeated())
        place += "[" + std::to_string(i) + "]";
      if (isMessage) {
        check(field->is_repeated()
                  ? reflection.GetRepeatedMessage(message, field, i)
                  : reflection.GetMessage(message, field),
              place + ".", sink);
        continue;
      }
      std::string text = field->is_repeated()
                             ? reflection.GetRepeatedString(message, field, i)
                             : reflection.GetString(message, field);
      if (!isText(text))
        sink.error(place + " is " + pp::onnx::quoted(text) +
                   ", which is not UTF-8");
    }
  }
}

void pp::onnx::checkText(const Message &message, DiagnosticSink &sink) {
  check(message, "", sink);
}
