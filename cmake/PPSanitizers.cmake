# Sanitizer flags for the whole tree, from PP_SANITIZE.
#
# The LLVM libraries are not instrumented: UBSan's vptr check needs their type
# information and is switched off; scripts/test sets allow_user_poisoning=0,
# because BumpPtrAllocator poisons in our translation units and nobody
# unpoisons in theirs.
if(PP_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr)
elseif(PP_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT PP_SANITIZE STREQUAL "")
  message(FATAL_ERROR "PP_SANITIZE='${PP_SANITIZE}': expected address, thread or nothing")
endif()

if(PP_BUILD_FUZZERS)
  if(NOT PP_SANITIZE STREQUAL "address")
    message(FATAL_ERROR "PP_BUILD_FUZZERS needs PP_SANITIZE=address")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
