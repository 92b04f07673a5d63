# ls_module(NAME SOURCES ... [DEPS module ...] [LINK target ...])
#   One folder of src/ as the object library ls_NAME. DEPS are the lower modules it may include (their link
#   needs follow); LINK are outside libraries. The objects go into liblockstep.
function(ls_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(ls_${name} OBJECT ${M_SOURCES})
  target_link_libraries(ls_${name} PRIVATE ls_flags PUBLIC ${M_LINK})
  foreach(dep ${M_DEPS})
    target_link_libraries(ls_${name} PUBLIC ls_${dep}_link)
  endforeach()
  # What a test links to use this module: its objects and, transitively, those of its DEPS.
  add_library(ls_${name}_link INTERFACE)
  target_link_libraries(ls_${name}_link INTERFACE ${M_LINK})
  set_property(GLOBAL APPEND PROPERTY LS_MODULES ${name})
  set_property(GLOBAL PROPERTY LS_DEPS_${name} "${M_DEPS}")
endfunction()

# ls_embed(OUT ARRAY FILES NAMES): OUT, a C file with FILES, a list of NAME=PATH (LockstepEmbed.cmake).
function(ls_embed out array files names)
  string(REGEX REPLACE "[^;|=]*=" "" paths "${files}")
  string(REPLACE "|" ";" paths "${paths}")
  set(script ${PROJECT_SOURCE_DIR}/cmake/LockstepEmbed.cmake)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DARRAY=${array} "-DFILES=${files}" -DNAMES=${names} -P ${script}
    DEPENDS ${paths} ${script} VERBATIM)
endfunction()

# ls_modules_closure(OUT name ...): the modules and everything below them.
function(ls_modules_closure out)
  set(todo ${ARGN})
  set(done "")
  while(todo)
    list(POP_FRONT todo m)
    if(NOT m IN_LIST done)
      list(APPEND done ${m})
      get_property(deps GLOBAL PROPERTY LS_DEPS_${m})
      list(APPEND todo ${deps})
    endif()
  endwhile()
  set(${out} ${done} PARENT_SCOPE)
endfunction()

# How many times as long a test may take; scripts read it as LOCKSTEP_TEST_TIME.
set(LS_TEST_TIME 1)
if(LS_SANITIZE MATCHES "thread")
  set(LS_TEST_TIME 5)
elseif(LS_SANITIZE)
  set(LS_TEST_TIME 3)
endif()

# ls_time_limit(SECONDS test ...): how long each may take where nothing is sanitized. What may take long is started first.
function(ls_time_limit seconds)
  math(EXPR limit "${seconds} * ${LS_TEST_TIME}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit} COST ${seconds})
endfunction()

# ls_all(NAME ...): tests, and programs, that `make test` leaves to `make test-all`, because they need minutes or what most
# machines lack (a browser, other hosts, empty systems). Such a test has the label "all".
function(ls_all)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS all)
    endif()
    if(TARGET ${name})
      set_target_properties(${name} PROPERTIES LS_ALL ON)
    endif()
  endforeach()
endfunction()

# ls_all_of(NAME ALL REST): as the options ALL and REST of the functions below say
function(ls_all_of name all rest)
  if(all)
    ls_all(${name})
  endif()
  if(rest)
    ls_all(${name}_all)
    set_property(TEST ${name}_all APPEND PROPERTY ENVIRONMENT LOCKSTEP_TEST_ALL=1)
  endif()
endfunction()

# What tests tell the thread sanitizer: which reports are not ours, and not to wait a second at the end of each process.
set(LS_TSAN_OPTIONS
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitize/tsan.supp:print_suppressions=0:atexit_sleep_ms=0")
# What tests that run MPI tell the sanitizers. Open MPI unloads its plugins before leaks are looked for, so stacks have to
# be walked back to a library that is still there: slower, but complete.
set(LS_MPI_TEST_ENVIRONMENT
  "ASAN_OPTIONS=fast_unwind_on_malloc=0"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitize/lsan.supp:print_suppressions=0"
  "${LS_TSAN_OPTIONS}")

# ls_test(NAME SOURCES ... MODULES ... [LINK ...] [TIMEOUT s] [LABELS ...] [SERIAL] [ALL] [REST] [NO_CTEST])
#   One test program, one process, with a time limit, linked with the objects of the named modules and all
#   modules below them (so that file-crossing but not exported functions can be tested). `ctest -j` runs nothing beside a
#   SERIAL one: it measures times, and what it decides may depend on them. ALL: see ls_all. REST: a second test,
#   NAME_all, has LOCKSTEP_TEST_ALL in its environment and tries more.
function(ls_test name)
  cmake_parse_arguments(T "NO_CTEST;SERIAL;ALL;REST" "TIMEOUT" "SOURCES;MODULES;LINK;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  ls_modules_closure(mods ${T_MODULES})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ls_flags PkgConfig::CMOCKA m ${T_LINK})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(m ${mods})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:ls_${m}>)
    target_link_libraries(${name} PRIVATE ls_${m}_link)
  endforeach()
  if(NOT T_NO_CTEST)
    set(tests ${name})
    if(T_REST)
      list(APPEND tests ${name}_all)
    endif()
    foreach(test ${tests})
      add_test(NAME ${test} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      ls_time_limit(${T_TIMEOUT} ${test})
      set_tests_properties(${test} PROPERTIES LABELS "${T_LABELS}" SKIP_RETURN_CODE 77 RUN_SERIAL ${T_SERIAL}
        ENVIRONMENT "${LS_TSAN_OPTIONS}")
    endforeach()
  endif()
  ls_all_of(${name} "${T_ALL}" "${T_REST}")
endfunction()

# ls_program_test(NAME SCRIPT file.sh TIMEOUT s [PROGRAM target] [LABELS ...] [ENVIRONMENT NAME=VALUE ...] [SERIAL] [ALL] [REST])
#   The program as a user runs it: a shell script beside the CMakeLists.txt, given the program and the sources. It runs on
#   the CPU, also where there is a GPU; what a GPU does is tested in tests/cuda, and what any device that captures its steps
#   does, by a stand-in for one (tests/program/stand_in.c). ALL: see ls_all. REST: the script goes further, or does more of the
#   same, in a second test, NAME_all (rest and all_or in tests/program/lib.sh).
function(ls_program_test name)
  cmake_parse_arguments(T "SERIAL;ALL;REST" "SCRIPT;TIMEOUT;PROGRAM" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT T_PROGRAM)
    set(T_PROGRAM lockstep_cli)
  endif()
  set(tests ${name})
  if(T_REST)
    list(APPEND tests ${name}_all)
  endif()
  foreach(test ${tests})
    add_test(NAME ${test}
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/${T_SCRIPT} $<TARGET_FILE:${T_PROGRAM}> ${PROJECT_SOURCE_DIR}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    ls_time_limit(${T_TIMEOUT} ${test})
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${T_LABELS};program" RUN_SERIAL ${T_SERIAL}
      ENVIRONMENT "${LS_MPI_TEST_ENVIRONMENT};LOCKSTEP_CUDA_MODULE=none;LOCKSTEP_TEST_TIME=${LS_TEST_TIME};${T_ENVIRONMENT}")
  endforeach()
  ls_all_of(${name} "${T_ALL}" "${T_REST}")
endfunction()
