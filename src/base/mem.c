/* base/mem.c - counted allocation. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_uint_fast64_t n_allocations; /* all so far */
static atomic_uint_fast64_t fail_number;   /* allocation that fails; 0: none */

uint64_t mem_count(void)
{
    return atomic_load_explicit(&n_allocations, memory_order_relaxed);
}

void mem_fail_at(uint64_t n)
{
    atomic_store(&fail_number, n == 0 ? 0 : mem_count() + n);
}

/* Counts one allocation; true when it is the one that has to fail. */
static bool count_and_fail(void)
{
    const uint64_t number = atomic_fetch_add_explicit(&n_allocations, 1, memory_order_relaxed) + 1;
    return number == atomic_load_explicit(&fail_number, memory_order_relaxed);
}

static bool checked_size(size_t *bytes, size_t n, size_t size)
{
    if (!size_mul(bytes, n, size) || *bytes > PTRDIFF_MAX) return false;
    if (*bytes == 0) *bytes = 1;
    return !count_and_fail();
}

void *mem_alloc(size_t n, size_t size)
{
    size_t bytes;
    return checked_size(&bytes, n, size) ? malloc(bytes) : NULL;
}

void *mem_zalloc(size_t n, size_t size)
{
    size_t bytes;
    return checked_size(&bytes, n, size) ? calloc(1, bytes) : NULL;
}

void *mem_realloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    return checked_size(&bytes, n, size) ? realloc(p, bytes) : NULL;
}

void *mem_aligned(size_t n, size_t size)
{
    enum { LINE = 64 };
    size_t bytes;
    if (!checked_size(&bytes, n, size) || bytes > PTRDIFF_MAX - LINE) return NULL;
    bytes   = (bytes + LINE - 1) / LINE * LINE;
    void *p = aligned_alloc(LINE, bytes);
    if (p != NULL) memset(p, 0, bytes);
    return p;
}

void *mem_pages(size_t bytes)
{
    if (!checked_size(&bytes, bytes, 1)) return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void mem_pages_free(void *p, size_t bytes)
{
    if (p != NULL) (void)munmap(p, bytes == 0 ? 1 : bytes);
}

void mem_free(void *p)
{
    free(p);
}

char *mem_strndup(const char *s, size_t n)
{
    size_t bytes;
    if (!size_add(&bytes, n, 1)) return NULL;
    char *p = mem_alloc(bytes, 1);
    if (p == NULL) return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}
