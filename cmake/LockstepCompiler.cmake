# Compiler flags shared by every target: strict warnings as errors on gcc and clang, no fast-math.
add_library(ls_flags INTERFACE)
target_compile_options(ls_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wno-missing-field-initializers -ffp-contract=off
  -fno-math-errno>
  # gcc's guess at -O3 cannot see that a failed call returns an error; clang's exact check stays on.
  $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-maybe-uninitialized>)
target_compile_definitions(ls_flags INTERFACE _GNU_SOURCE)
target_include_directories(ls_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(LS_SANITIZE)
  add_compile_options(-fsanitize=${LS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LS_SANITIZE})
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
