/* tests/fuzz/fuzz_recipe.c - any bytes as a recipe file.
 *
 * What is accepted chooses forms that exist, for names of every kind and columns
 * that no group divides; a trellis without a rule is for dense layers' MLPs alone. */
#include "convert/recipe.h"
#include "quant/affine.h"
#include "quant/trellis_encode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_affine(recipe_choice c, uint64_t cols)
{
    if (c.format != RECIPE_AFFINE) abort();
    if (c.bits == RECIPE_KEEP) return;
    if (!affine_is(c.bits, c.group) || cols == 0 || cols % c.group != 0) abort();
}

static void choose(recipe *r, const char *module)
{
    static const uint64_t cols[] = {0, 1, 48, 96, 4096};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        const recipe_choice c = recipe_choose(r, module, cols[i]);
        if (c.format == RECIPE_TRELLIS) {
            if (!trellis_encode_is(c.bits) || (!c.named && !recipe_is_dense_mlp(module))) abort();
            check_affine(recipe_as_affine(c, cols[i]), cols[i]);
        } else {
            check_affine(c, cols[i]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    recipe     r = {.bits = 4, .group = 64, .format = size % 2 == 0 ? RECIPE_AFFINE : RECIPE_TRELLIS};
    weir_error err;
    err.text[0] = '\0';
    if (recipe_parse(&r, (const char *)data, size, "recipe", &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
    } else {
        choose(&r, "");
        choose(&r, "lm_head");
        choose(&r, "layers.12.mlp.up_proj");
        choose(&r, "layers.12.mlp.switch_mlp.up_proj");
        choose(&r, "layers.3.linear_attn.in_proj_a");
        if (recipe_all_used(&r, &err) != WEIR_OK && strstr(err.text, "pattern") == NULL) abort();
    }
    recipe_free(&r);
    return 0;
}
