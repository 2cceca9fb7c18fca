/* tests/oracle/fixture_cases.h - every fixture in several forms of the key/value
 * cache, as cases of a cmocka group, with the error allowed to each. */
#ifndef ORACLE_FIXTURE_CASES_H
#define ORACLE_FIXTURE_CASES_H

#include "support/cmocka.h"
#include "support/engines.h"
#include "support/tensors.h"

/* Opened anew for every case. */
typedef struct fixture_case {
    const char    *fixture, *kv;
    uint32_t       kv_start;
    double         bound; /* of |logit - float64|, in standard deviations of the position's logits */
    char           name[64];
    weir_model    *m;
    weir_engine   *e;
    weir_sequence *s;
    safetensors    expected;
} fixture_case;

enum { FIXTURE_FORMS = 7, FIXTURE_CASES = FIXTURE_FORMS * FIXTURES, N_PROMPTS = 7 };
extern const unsigned prompts[N_PROMPTS]; /* the lengths in names like "p37.logits" */

/* With keys and values as floats of 32 or 16 bits. */
bool fixture_case_plain(const fixture_case *c);

/* Runs `test` for every case, or for those that are `wanted` (NULL: all); its
 * argument is the fixture_case. */
int fixture_cases_run(const char *group, CMUnitTestFunction test, bool (*wanted)(const fixture_case *c));

#endif
