/* fetch/select_gguf.c - one quantisation of a repository of .gguf files; see select.h.
 *
 * A set is a file, or the parts NAME-00001-of-00003.gguf and so on, which may
 * lie in a folder.  Its quantisation is what its NAME, or the folder, ends in. */
#include "fetch/select.h"

#include <string.h>
#include <strings.h>

#define DEFAULT_QUANT "Q4_K_M"
enum { PART = sizeof "-00001-of-00003" - 1, SUFFIX = sizeof ".gguf" - 1, SETS_SHOWN = 2000 };

/* One file's place in its set. */
typedef struct member {
    size_t   stem;          /* bytes of the path without part and suffix */
    size_t   base;          /* where the file's own name begins */
    unsigned number, count; /* from 1; 1 of 1 when not split */
} member;

/* Whether the n bytes at `text` are `what`, or end in it behind '-', '.' or '_'. */
static bool ends_in_word(const char *text, size_t n, const char *what)
{
    const size_t w = strlen(what);
    if (n < w || strncasecmp(text + n - w, what, w) != 0) return false;
    return n == w || strchr("-._/", text[n - w - 1]) != NULL;
}

static bool read_member(member *m, const char *path)
{
    const size_t n     = strlen(path);
    const char  *slash = strrchr(path, '/');
    *m                 = (member){.base = slash != NULL ? (size_t)(slash + 1 - path) : 0, .number = 1, .count = 1};
    if (n - m->base <= SUFFIX || strcasecmp(path + n - SUFFIX, ".gguf") != 0) return false;
    m->stem = n - SUFFIX;
    if (m->stem - m->base > PART && sscanf(path + m->stem - PART, "-%5u-of-%5u", &m->number, &m->count) == 2)
        m->stem -= PART;
    if (m->number == 0 || m->count == 0 || m->number > m->count) return false;
    /* What belongs to a model and is none. */
    const char *name = path + m->base;
    return strncasecmp(name, "mmproj", 6) != 0 && strncasecmp(name, "mtp-", 4) != 0 &&
           strncasecmp(name, "imatrix", 7) != 0 && !ends_in_word(name, m->stem - m->base, "imatrix");
}

static bool matches(const char *path, const member *m, const char *what)
{
    if (strcmp(path, what) == 0 || ends_in_word(path + m->base, m->stem - m->base, what)) return true;
    return m->base > 0 && ends_in_word(path, m->base - 1, what);
}

/* The quantisation as it is shown: from the first word that begins like one. */
static void put_quant(str *out, const char *path, const member *m)
{
    static const struct {
        const char *start;
        bool        digit; /* one follows */
    } words[] = {{"UD-", false},  {"IQ", true},   {"Q", true},    {"TQ", true},
                 {"BF16", false}, {"F16", false}, {"F32", false}, {"MXFP", true}};
    for (size_t i = m->base; i < m->stem; i++) {
        if (i > m->base && strchr("-.", path[i - 1]) == NULL) continue;
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            const size_t n = strlen(words[k].start);
            if (strncasecmp(path + i, words[k].start, n) != 0) continue;
            if (words[k].digit && (path[i + n] < '0' || path[i + n] > '9')) continue;
            str_put(out, path + i, m->stem - i);
            return;
        }
    }
    str_put(out, path + m->base, m->stem - m->base);
}

static void put_sets(str *out, const listing *l, const char *what)
{
    for (size_t i = 0; i < l->n; i++) {
        member m;
        if (!read_member(&m, l->files[i].path) || m.number != 1 ||
            (what[0] != '\0' && !matches(l->files[i].path, &m, what)))
            continue;
        if (out->len > 0) str_puts(out, ", ");
        if (what[0] == '\0')
            put_quant(out, l->files[i].path, &m);
        else
            str_puts(out, l->files[i].path);
    }
}

static bool same_set(const char *a, const member *m, const char *b, const member *o)
{
    return m->stem == o->stem && m->count == o->count && memcmp(a, b, m->stem) == 0;
}

/* Counts the sets that `what` fits; *found is a file of the last one. */
static size_t count_sets(const listing *l, const char *what, size_t *found)
{
    size_t n    = 0;
    member last = {0};
    for (size_t i = 0; i < l->n; i++) {
        member m;
        if (!read_member(&m, l->files[i].path)) continue;
        if (what[0] != '\0' && !matches(l->files[i].path, &m, what)) continue;
        if (n > 0 && same_set(l->files[i].path, &m, l->files[*found].path, &last)) continue;
        last   = m;
        *found = i;
        n++;
    }
    return n;
}

/* Marks the set that the file belongs to; *first is its first part. */
static weir_status mark_set(listing *l, size_t one, const char *where, size_t *first, weir_error *err)
{
    member   m, o;
    unsigned n = 0;
    *first     = one;
    (void)read_member(&m, l->files[one].path);
    for (size_t i = 0; i < l->n; i++) {
        if (!read_member(&o, l->files[i].path) || !same_set(l->files[i].path, &o, l->files[one].path, &m)) continue;
        l->files[i].wanted = true;
        if (o.number == 1) *first = i;
        n++;
    }
    if (n != m.count)
        return status_fail(err, WEIR_FORMAT, "%s: %.300s: expected %u parts, found %u", where, l->files[one].path,
                           m.count, n);
    str mtp;
    str_init(&mtp, LISTING_PATH_MAX + 16);
    str_printf(&mtp, "%.*smtp-%.*s.gguf", (int)m.base, l->files[one].path, (int)(m.stem - m.base),
               l->files[one].path + m.base);
    listing_file *head = mtp.failed ? NULL : listing_find(l, mtp.data);
    if (head != NULL) head->wanted = true;
    str_free(&mtp);
    return WEIR_OK;
}

weir_status select_gguf(listing *l, const char *what, const char *where, size_t *first, weir_error *err)
{
    size_t one = 0, n = count_sets(l, what, &one);
    if (what[0] == '\0' && n > 1) n = count_sets(l, DEFAULT_QUANT, &one);
    if (n == 1) return mark_set(l, one, where, first, err);

    str there;
    str_init(&there, SETS_SHOWN);
    put_sets(&there, l, n > 1 ? (what[0] != '\0' ? what : DEFAULT_QUANT) : "");
    const weir_status st =
        there.len == 0 ? status_fail(err, WEIR_UNSUPPORTED, "%s: has no .gguf file", where)
        : what[0] == '\0'
            ? status_fail(err, WEIR_INVALID, "%s: name a file or a quantisation, as in %s:Q8_0; there are %s", where,
                          where, there.data)
            : status_fail(err, WEIR_INVALID, "%s: \"%s\" fits %zu of the .gguf files; there are %s", where, what, n,
                          there.data);
    str_free(&there);
    return st;
}

void select_describe_gguf(const listing *l, str *names, str *missing)
{
    for (size_t i = 0; i < l->n;) {
        member   m, o;
        unsigned n     = 1;
        size_t   after = i + 1;
        if (read_member(&m, l->files[i].path)) {
            /* The parts of a set stand together: the list is sorted. */
            for (; after < l->n && read_member(&o, l->files[after].path); after++, n++)
                if (!same_set(l->files[after].path, &o, l->files[i].path, &m)) break;
            if (names->len > 0) str_puts(names, ", ");
            put_quant(names, l->files[i].path, &m);
            if (n < m.count) {
                if (missing->len > 0) str_puts(missing, ", ");
                str_printf(missing, "%u of %u parts of %.*s", m.count - n, m.count, (int)m.stem, l->files[i].path);
            }
        }
        i = after;
    }
}
