/* tests/support/cmocka.h - cmocka with its prerequisites in the order it wants. */
#ifndef SUPPORT_CMOCKA_H
#define SUPPORT_CMOCKA_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#ifdef WEIR_TEST_NO_CMOCKA
#include "support/cmocka_subset.h"
#else
#include <cmocka.h>
#endif
/* clang-format on */

#endif
