/* tests/fuzz/fuzz_recipe.c - any bytes as a recipe file.
 *
 * What is accepted chooses forms that exist, for names of every kind and columns
 * that no group divides. */
#include "convert/recipe.h"
#include "quant/affine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(recipe *r, const char *module)
{
    static const uint64_t cols[] = {0, 1, 48, 96, 4096};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        const recipe_choice c = recipe_choose(r, module, cols[i]);
        if (c.bits != RECIPE_KEEP && (!affine_is(c.bits, c.group) || cols[i] % c.group != 0)) abort();
        if (c.bits != RECIPE_KEEP && cols[i] == 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    recipe     r = {.bits = 4, .group = 64};
    weir_error err;
    err.text[0] = '\0';
    if (recipe_parse(&r, (const char *)data, size, "recipe", &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
    } else {
        choose(&r, "");
        choose(&r, "lm_head");
        choose(&r, "layers.12.mlp.switch_mlp.up_proj");
        choose(&r, "layers.3.linear_attn.in_proj_a");
        if (recipe_all_used(&r, &err) != WEIR_OK && strstr(err.text, "pattern") == NULL) abort();
    }
    recipe_free(&r);
    return 0;
}
