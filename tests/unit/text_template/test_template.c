/* tests/unit/text_template/test_template.c - template snippets against Jinja2.
 *
 * cases/templates/snippets_golden.json holds what Jinja2 made of every snippet
 * (tests/tools/make_template_goldens.py). */
#include "support/cmocka.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES WEIR_SOURCE_DIR "/tests/cases/templates/"

enum { CLOCK = 1700000000, MAX_VARS = 64 };

static void load(json_doc *doc, const char *path)
{
    weir_error err;
    if (json_load(doc, path, 1 << 24, JSON_MAX_DEPTH, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static weir_status render(const char *source, size_t len, const json_t *context, const template_options *opt,
                          template_text *out, weir_error *err)
{
    template_var vars[MAX_VARS];
    size_t       n = 0;
    template    *t;
    void        *it = json_object_iter((json_t *)(uintptr_t)context);
    for (; it != NULL; it = json_object_iter_next((json_t *)(uintptr_t)context, it))
        vars[n++] = (template_var){.name = json_object_iter_key(it), .value = json_object_iter_value(it)};
    *out                 = (template_text){0};
    const weir_status st = template_parse(&t, source, len, "snippet", err);
    if (st != WEIR_OK) return st;
    const weir_status rendered = template_render(t, vars, n, opt, out, err);
    template_free(t);
    return rendered;
}

static weir_status render_text(const char *source, const json_t *context, const template_options *opt,
                               template_text *out, weir_error *err)
{
    return render(source, strlen(source), context, opt, out, err);
}

/* One snippet; returns 0 when it agrees. */
static int differs(const json_t *golden, const json_t *context)
{
    const json_t          *source = json_object_get(golden, "source"), *text = json_object_get(golden, "text");
    const char            *raised = json_string_value(json_object_get(golden, "raised"));
    const template_options opt    = {.now = CLOCK};
    template_text          out;
    weir_error             err = {.text = ""};
    const weir_status st  = render(json_string_value(source), json_string_length(source), context, &opt, &out, &err);
    int               bad = 0;
    if (text == NULL) {
        bad = st == WEIR_OK || (raised != NULL && (st != WEIR_INVALID || strcmp(err.text, raised) != 0)) ||
              err.text[0] == '\0';
        if (bad)
            print_error("%s\n  expected an error %s\n  found    %s\n", json_string_value(source),
                        raised == NULL ? json_string_value(json_object_get(golden, "error")) : raised,
                        st == WEIR_OK ? out.text : err.text);
    } else {
        bad = st != WEIR_OK || out.len != json_string_length(text) ||
              memcmp(out.text, json_string_value(text), out.len) != 0;
        if (bad)
            print_error("%s\n  expected %s\n  found    %s\n", json_string_value(source), json_string_value(text),
                        st == WEIR_OK ? out.text : err.text);
    }
    template_text_free(&out);
    return bad;
}

static void snippets_give_what_jinja2_gives(void **state)
{
    (void)state;
    json_doc input, golden;
    load(&input, CASES "snippets.json");
    load(&golden, CASES "snippets_golden.json");
    const json_t *context = json_object_get(input.root, "context");
    int           bad     = 0;
    assert_true(json_array_size(golden.root) >= 150);
    assert_int_equal(json_array_size(golden.root), json_array_size(json_object_get(input.root, "snippets")));
    for (size_t i = 0; i < json_array_size(golden.root); i++) bad += differs(json_array_get(golden.root, i), context);
    print_message("%zu snippets, %d differ\n", json_array_size(golden.root), bad);
    json_doc_free(&golden);
    json_doc_free(&input);
    assert_int_equal(bad, 0);
}

/* ---- provenance ---- */

static const char data[] = "{\"d\": \"ab<x>\", \"pad\": \"  p \", \"n\": 12, \"yes\": true, \"list\": [\"one\", 2], "
                           "\"obj\": {\"k\\n\": \"v\\u00fc\"}, \"csv\": \"a,b\", \"q\": \"it's\"}";

/* '.' under a byte of the template, '#' under a byte of the data. */
static void marks_follow_the_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text, *marks;
    } cases[] = {
        {"a{{ d }}b", "aab<x>b", ".#####."},
        {"{{ 'a' + d + 'b' }}", "aab<x>b", ".#####."},
        {"{{ 'a' ~ d ~ 1 ~ n }}", "aab<x>112", ".#####.##"},
        {"{{ ('a' + d)[:3] }}", "aab", ".##"},
        {"{{ ('x' + d)[::-1] }}", ">x<bax", "#####."},
        {"{{ pad|trim }}|{{ (' ' + pad).strip() }}|", "p|p|", "#.#."},
        {"{{ d.split('<')[1] + '<' }}", "x><", "##."},
        {"{{ d|replace('<x>', '<x>') }}", "ab<x>", "##..."},
        {"{{ 'a,b'.replace(',', d) }}", "aab<x>b", ".#####."},
        {"{{ ['-', d]|join(csv) }}", "-a,bab<x>", ".########"},
        {"{{ ', '.join([d, 'z']) }}", "ab<x>, z", "#####..."},
        {"{{ d|upper }}{{ 'z'|upper }}", "AB<X>Z", "#####."},
        {"{{ list|tojson }}", "[\"one\", 2]", "..###...#."},
        {"{{ obj|tojson }}", "{\"k\\n\": \"vü\"}", "..###....###.."},
        {"{{ [q] }}", "[\"it's\"]", "..####.."},
        {"{{ list }}{{ yes }}{{ n + 1 }}", "['one', 2]True13", "..###...#.######"},
        {"{{ 1 + 1 }}{{ n|string }}{{ list|length }}", "2122", ".##."},
        {"{{ d|indent(1, true) }}", " ab<x>", ".#####"},
        {"{% set x %}<{{ d }}>{% endset %}{{ x }}{{ x|length }}", "<ab<x>>7", ".#####.."},
        {"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(d)|trim }}{{ m('z') }}", "[ab<x>][z]", ".#####...."},
        {"{{ d if d == 'ab<x>' else '' }}{{ 'same' if d == 'ab<x>' }}", "ab<x>same", "#####...."},
        {"{% for c in d %}{{ c }}-{% endfor %}", "a-b-<-x->-", "#.#.#.#.#."},
        {"{% for k, v in obj.items() %}{{ v }}{{ k }}{% endfor %}", "vük\n", "#####"},
        {"{{ d * 2 }}{{ 'z' * n }}", "ab<x>ab<x>zzzzzzzzzzzz", "##########............"},
        {"{{ d|list|first }}{{ d|map('upper')|join('.') }}", "aA.B.<.X.>", "##.#.#.#.#"},
        {"{{ d|default('z') }}{{ nothing|default('z') }}", "ab<x>z", "#####."},
        {"{{ d|title }}{{ (d ~ 'Z').lower() }}", "Ab<X>ab<x>z", "##########."},
    };
    json_t *context = json_loads(data, 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        template_text out;
        weir_error    err;
        if (render_text(cases[i].source, context, NULL, &out, &err) != WEIR_OK) fail_msg("%s", err.text);
        assert_string_equal(out.text, cases[i].text);
        assert_int_equal(out.len, strlen(cases[i].marks));
        for (size_t k = 0; k < out.len; k++)
            if (out.untrusted[k] != (cases[i].marks[k] == '#'))
                fail_msg("%s: byte %zu of %s", cases[i].source, k, out.text);
        template_text_free(&out);
    }
    json_decref(context);
}

static void a_trusted_variable_counts_as_the_template(void **state)
{
    (void)state;
    json_t            *token = json_string("<s>"), *text = json_string("<s>");
    const template_var vars[] = {{.name = "bos_token", .value = token, .trusted = true},
                                 {.name = "text", .value = text}};
    template          *t;
    template_text      out;
    assert_int_equal(template_parse(&t, "{{ bos_token + text }}", 22, "t", NULL), WEIR_OK);
    assert_int_equal(template_render(t, vars, 2, NULL, &out, NULL), WEIR_OK);
    assert_memory_equal(out.untrusted, "\0\0\0\1\1\1", 6);
    template_text_free(&out);
    template_free(t);
    json_decref(token);
    json_decref(text);
}

/* ---- messages ---- */

static void messages_name_template_line_and_what_was_found(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        weir_status st;
        const char *text;
    } cases[] = {
        {"a\nb {{ 1 + }}", WEIR_FORMAT, "snippet:2: expected an expression, found '}}'"},
        {"{% if x %}\n\n", WEIR_FORMAT, "snippet:2: expected 'endif', found the end of the template"},
        {"{% for x of y %}", WEIR_FORMAT, "snippet:1: expected 'in', found 'of'"},
        {"\n\n{{ x|nofilter }}", WEIR_UNSUPPORTED, "snippet:3: the filter 'nofilter' is not known here"},
        {"{{ x is strange }}", WEIR_UNSUPPORTED, "snippet:1: the test 'strange' is not known here"},
        {"{% if false %}{{ lipsum(3) }}{% endif %}", WEIR_UNSUPPORTED,
         "snippet:1: the function 'lipsum' is not known here"},
        {"{% extends 'x' %}", WEIR_UNSUPPORTED, "snippet:1: expected a statement that is known here, found 'extends'"},
        {"x\n{{ nothing.a }}", WEIR_INVALID,
         "snippet:2: expected a value with 'a', found 'nothing', which is undefined"},
        {"{{ 1 + 'x' }}", WEIR_INVALID, "snippet:1: expected operands that '+' takes, found an integer and a string"},
        {"{{ 'x'.zfill(3) }}", WEIR_UNSUPPORTED, "snippet:1: the method 'zfill' of a string is not supported"},
        {"{{ [].append(3) }}", WEIR_UNSUPPORTED, "snippet:1: the method 'append' of a sequence is not supported"},
        {"{{ 'x'|map('nofilter')|list }}", WEIR_UNSUPPORTED, "snippet:1: the filter 'nofilter' is not known here"},
        {"\n{{ raise_exception('in my words') }}", WEIR_INVALID, "in my words"},
        {"{{ 9999999999999999999 }}", WEIR_FORMAT, "snippet:1: expected a number of at most 64 bits, found another"},
        {"{{ 9223372036854775807 + 1 }}", WEIR_INVALID,
         "snippet:1: the result of '+' does not fit a number of 64 bits"},
        {"\xff", WEIR_FORMAT, "snippet:1: expected UTF-8 text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        template_text out;
        weir_error    err = {.text = ""};
        assert_int_equal(render_text(cases[i].source, NULL, NULL, &out, &err), cases[i].st);
        assert_string_equal(err.text, cases[i].text);
    }
}

/* A template may ask whether a function exists before it calls it. */
static void a_guarded_unknown_function_is_left_alone(void **state)
{
    (void)state;
    template_text out;
    assert_int_equal(render_text("{% if now_is is defined %}{{ now_is() }}{% endif %}ok", NULL, NULL, &out, NULL),
                     WEIR_OK);
    assert_string_equal(out.text, "ok");
    template_text_free(&out);
}

/* ---- limits ---- */

static void limit(const char *source, const template_options *opt, const char *part)
{
    template_text out;
    weir_error    err     = {.text = ""};
    json_t       *context = json_loads(data, 0, NULL);
    assert_int_equal(render_text(source, context, opt, &out, &err), WEIR_NO_MEMORY);
    if (strstr(err.text, part) == NULL) fail_msg("%s\n  gave: %s", source, err.text);
    json_decref(context);
}

static void every_limit_is_an_error_that_names_it(void **state)
{
    (void)state;
    static const template_options small = {.max_steps = 10000, .max_memory = 1 << 20, .max_output = 10000};
    static const template_options few   = {.max_steps = 10000};
    static const template_options lean  = {.max_memory = 1 << 16};
    limit("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", &few, "limit of 10000 steps");
    limit("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", NULL, "nested past the limit of 800 levels");
    limit("{{ 'x' * 10001 }}", &small, "limit of 10000 bytes of output");
    limit("{% for i in range(2000) %}123456{% endfor %}", &small, "limit of 10000 bytes of output");
    limit("{{ 'x' * 9223372036854775807 }}", NULL, "bytes of output");
    limit("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", NULL,
          "bytes of");
    limit("{{ [1, 2] * 9000000000 }}", NULL, "limit of");
    limit("{{ range(100001)|length }}", NULL, "limit of 100000 numbers");
    limit("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", NULL,
          "nested past the limit of 800 levels");
    limit("{% set ns = namespace(l=[]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == "
          "ns.l[:] }}{{ ns.l }}",
          &small, "limit of");
    limit("{% for i in range(3000) %}{% set x = [i, i, i, i] %}{% endfor %}", &lean, "limit of 65536 bytes of memory");
    limit("{% set a = 'a' * 1000000 %}{% for i in range(99999) %}{% set b = a.rfind('b' ~ a) %}{% endfor %}", NULL,
          "steps");
}

static void nesting_of_the_source_is_bounded(void **state)
{
    (void)state;
    enum { DEEP = 20000, ROOM = 200000 };
    static const char *const pieces[][3] = {
        {"{{ ", "(", " }}"},      {"{{ ", "[", " }}"},    {"{{ ", "-", "1 }}"},
        {"{{ ", "not ", "1 }}"},  {"{{ 1", "+1", " }}"},  {"{{ x", ".x", " }}"},
        {"{{ x", "|trim", " }}"}, {"", "{% if 1 %}", ""}, {"{{ 1", " if 1 else 1", " }}"},
        {"{{ {", "1:{", " }}"},   {"{{ x", "[x", " }}"},  {"{{ f", "(f", " }}"}};
    char *source = malloc(ROOM + 100);
    assert_non_null(source);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        template_text out;
        weir_error    err;
        size_t        n = (size_t)sprintf(source, "%s", pieces[i][0]);
        for (int k = 0; k < DEEP && n + 20 < ROOM; k++) n += (size_t)sprintf(source + n, "%s", pieces[i][1]);
        (void)sprintf(source + n, "%s", pieces[i][2]);
        assert_int_equal(render_text(source, NULL, NULL, &out, &err), WEIR_FORMAT);
        if (strstr(err.text, "256") == NULL) fail_msg("%s: %s", pieces[i][1], err.text);
    }
    free(source);
}

/* JSON deeper than the reader allows can still be built in memory. */
static void nesting_of_the_data_is_bounded(void **state)
{
    (void)state;
    enum { DEEP = 1500 };
    json_t *v = json_array();
    for (int i = 0; i < DEEP; i++) {
        json_t *outer = json_array();
        assert_int_equal(json_array_append_new(outer, v), 0);
        v = outer;
    }
    json_t       *context = json_pack("{s:o}", "deep", v);
    template_text out;
    weir_error    err;
    assert_int_equal(render_text("{{ deep }}", context, NULL, &out, &err), WEIR_NO_MEMORY);
    assert_non_null(strstr(err.text, "800 levels"));
    json_decref(context);
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    const char source[] =
        "{% macro m(a) %}[{{ a }}]{% endmacro %}{% for i in range(3000) %}{{ m('\\n' ~ i) }}{% endfor %}";
    weir_status st = WEIR_NO_MEMORY;
    uint64_t    n  = 1;
    for (; st != WEIR_OK; n++) {
        template_text out;
        mem_fail_at(n);
        st = render_text(source, NULL, NULL, &out, NULL);
        mem_fail_at(0);
        assert_true(st == WEIR_OK || st == WEIR_NO_MEMORY);
        template_text_free(&out);
    }
    assert_true(n > 8);
}

int main(void)
{
    (void)setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_give_what_jinja2_gives),
        cmocka_unit_test(marks_follow_the_bytes),
        cmocka_unit_test(a_trusted_variable_counts_as_the_template),
        cmocka_unit_test(messages_name_template_line_and_what_was_found),
        cmocka_unit_test(a_guarded_unknown_function_is_left_alone),
        cmocka_unit_test(every_limit_is_an_error_that_names_it),
        cmocka_unit_test(nesting_of_the_source_is_bounded),
        cmocka_unit_test(nesting_of_the_data_is_bounded),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
