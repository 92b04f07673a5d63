/* cmocka, after the headers that it needs. */
#ifndef LS_TESTS_UNIT_H
#define LS_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#endif
