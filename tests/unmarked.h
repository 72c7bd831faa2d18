/* unmarked.h -- assertions of Check that cost nothing where they hold.
 *
 * Included in front of every test (Makefile).  Check has each assertion that holds write its place to a file, for the report of a test that crashes
 * later: a system call for each of millions of compared elements, a third of the suite's time.  A crash is still reported with its test; where in it,
 * `make san` says. */
#ifndef TDSL_TEST_UNMARKED_H
#define TDSL_TEST_UNMARKED_H
#include <check.h>
#define _mark_point(file, line) ((void)0)
#endif
