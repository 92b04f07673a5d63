# Compiler flags shared by every target: strict warnings, no fast-math. Warnings are errors for developers and in CI; a
# user's compiler may know warnings that no one here has seen.
option(LS_WERROR "Warnings are errors: presets dev, debug, asan, tsan, clang and cuda, and make with CI=true" OFF)
add_library(ls_flags INTERFACE)
target_compile_options(ls_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wno-missing-field-initializers -ffp-contract=off
  -fno-math-errno>
  # gcc's guess at -O3 cannot see that a failed call returns an error; clang's exact check stays on.
  $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-maybe-uninitialized>
  $<$<AND:$<BOOL:${LS_WERROR}>,$<COMPILE_LANGUAGE:C>>:-Werror>)
target_compile_definitions(ls_flags INTERFACE _GNU_SOURCE)
target_include_directories(ls_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  "$<BUILD_INTERFACE:${LS_WINGS}>")
if(LS_SANITIZE)
  add_compile_options(-fsanitize=${LS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LS_SANITIZE})
  if(LS_SANITIZE MATCHES "thread")
    target_compile_options(ls_flags INTERFACE
      "$<$<COMPILE_LANGUAGE:C>:SHELL:-include ${PROJECT_SOURCE_DIR}/tests/sanitize/tsan.h>")
  endif()
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
