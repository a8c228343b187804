# Sanitizer flags for the whole tree, from PP_SANITIZE.
#
# The LLVM libraries are not instrumented: UBSan's vptr check needs their type
# information and is switched off; scripts/test sets allow_user_poisoning=0,
# because BumpPtrAllocator poisons in our translation units and nobody
# unpoisons in theirs.
#
# What is checked at every access through a pointer is a quarter of the time to
# compile: a null pointer ends a test without it, and the other faults are looked
# for by the fuzzers.
if(PP_SANITIZE STREQUAL "address")
  set(pp_unchecked vptr)
  if(NOT PP_BUILD_FUZZERS)
    string(APPEND pp_unchecked ",null,alignment,object-size,pointer-overflow,function,return,returns-nonnull-attribute,nonnull-attribute")
  endif()
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=${pp_unchecked} -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=${pp_unchecked})
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
