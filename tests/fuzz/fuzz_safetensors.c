/* tests/fuzz/fuzz_safetensors.c - any bytes as a safetensors file.
 *
 * Beyond not crashing: in a file that is accepted every span lies inside it,
 * which is shown by reading each tensor's first and last byte. */
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const safetensors *s, const uint8_t *file, size_t size)
{
    volatile uint8_t sink = 0;
    for (size_t i = 0; i < s->n; i++) {
        const safetensors_tensor *t = &s->tensors[i];
        const char               *name;
        (void)names_split(t->name, &name);
        if (t->bytes == 0) continue;
        const uint8_t *first = s->data + t->begin, *last = first + t->bytes - 1;
        if (first < file || last >= file + size) abort();
        sink = (uint8_t)(sink + *first + *last + (uint8_t)name[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    safetensors s;
    weir_error  err;
    err.text[0] = '\0';
    if (safetensors_open_memory(&s, "fuzz", data, size, &err) == WEIR_OK)
        touch(&s, data, size);
    else if (err.text[0] == '\0')
        abort(); /* every failure says why */
    safetensors_close(&s);
    return 0;
}
