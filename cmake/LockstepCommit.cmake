# Run at every build: writes the commit of the checkout into OUT, a header, only when it has changed. Sources that are
# no checkout of their own (a release, an unpacked archive) have no commit. SOURCE, OUT: given with -D.
cmake_minimum_required(VERSION 3.25)
set(commit "unknown")
if(EXISTS ${SOURCE}/.git)
  # Building as root in another user's checkout (sudo make install) is no reason not to know it.
  execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} --no-optional-locks describe --always --abbrev=10 --dirty --exclude=*
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(commit ${said})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define CLI_COMMIT \"${commit}\"\n")
