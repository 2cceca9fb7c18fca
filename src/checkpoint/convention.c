/* checkpoint/convention.c - in which of its forms a checkpoint is stored.
 *
 * One family of exporters stores RMSNorm gains as gamma - 1 and conv kernels
 * as [C,1,K], the other gamma and [C,K,1].  A wrong guess loads without a
 * complaint and speaks noise, so nothing is guessed: the conv layout decides,
 * the gains must agree, and a file that leaves a doubt is refused.  The names
 * of tensors, above all the presence of MTP ones, prove nothing.
 *
 * Gains gather around gamma = 1, so their mean tells the form: about 0 or
 * about 1.  The first layer's mean is clear in most models.  Where training has moved
 * it towards 0.5, the mean over all layers is asked. */
#include "checkpoint/convention.h"

#include "base/bytes.h"
#include "base/half.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum gain_form { GAIN_MINUS_ONE, GAIN_PLAIN, GAIN_UNCLEAR } gain_form;

/* Below low / above high: clear for one tensor, for the mean over many. */
static const double one_low = 0.25, one_high = 0.75, all_low = 0.4, all_high = 0.6;

static gain_form form_of(double mean, double low, double high)
{
    return mean < low ? GAIN_MINUS_ONE : mean > high ? GAIN_PLAIN : GAIN_UNCLEAR;
}

static bool ends_in(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static double element(const checkpoint_tensor *t, uint64_t i)
{
    if (t->type == DTYPE_F32) return (double)load_f32(t->data + 4 * i);
    const uint16_t h = load_u16(t->data + 2 * i);
    return (double)(t->type == DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h));
}

static weir_status mean_of(const checkpoint_tensor *t, double *out, weir_error *err)
{
    if (t->type != DTYPE_F32 && t->type != DTYPE_F16 && t->type != DTYPE_BF16)
        return status_fail(err, WEIR_FORMAT, "%s: %s: dtype: expected F32, F16 or BF16, found %s", t->file, t->raw_name,
                           t->type_name);
    if (t->rank != 1 || t->shape[0] == 0 || t->shape[0] > CONFIG_MAX_HIDDEN)
        return status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected one dimension of 1..%d", t->file, t->raw_name,
                           CONFIG_MAX_HIDDEN);
    double sum = 0.0;
    for (uint64_t i = 0; i < t->shape[0]; i++) sum += element(t, i);
    *out = sum / (double)t->shape[0];
    if (isfinite(*out)) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected finite gains, found others", t->file, t->raw_name);
}

static bool is_layer_norm(const char *name)
{
    return ends_in(name, ".input_layernorm.weight") || ends_in(name, ".post_attention_layernorm.weight");
}

/* The mean of the means of all layer norms of a part. */
static weir_status mean_of_part(const checkpoint *c, checkpoint_part part, double *out, weir_error *err)
{
    double sum = 0.0;
    size_t n   = 0;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const checkpoint_tensor *t = checkpoint_at(c, i);
        if (t->part != part || !is_layer_norm(t->name)) continue;
        double mean;
        TRY(mean_of(t, &mean, err));
        sum += mean;
        n++;
    }
    *out = n != 0 ? sum / (double)n : 0.5;
    return WEIR_OK;
}

/* The form of a part's gains; *evidence is the first layer's norm. */
static weir_status detect_gains(gain_form *out, const checkpoint_tensor **evidence, const checkpoint *c,
                                checkpoint_part part, weir_error *err)
{
    const checkpoint_tensor *t = checkpoint_find(c, part, "layers.0.input_layernorm.weight");
    if (t == NULL)
        return status_fail(err, WEIR_FORMAT, "%s: %slayers.0.input_layernorm.weight: expected the tensor, found none",
                           checkpoint_path(c), part == CHECKPOINT_MTP ? "mtp." : "");
    double first, all;
    TRY(mean_of(t, &first, err));
    *evidence = t;
    *out      = form_of(first, one_low, one_high);
    if (*out != GAIN_UNCLEAR) return WEIR_OK;
    TRY(mean_of_part(c, part, &all, err));
    *out = form_of(all, all_low, all_high);
    if (*out != GAIN_UNCLEAR) return WEIR_OK;
    return status_fail(
        err, WEIR_FORMAT,
        "%s: %s: norm gains: expected a mean near 0 (stored as gamma - 1) or near 1 (gamma), found %.3f, "
        "over all layers %.3f: cannot decide",
        t->file, t->raw_name, first, all);
}

/* The layout of one conv kernel.  C is config_conv_channels, K at least 2, so the two differ. */
static weir_status conv_layout(const checkpoint_tensor *t, const config *cfg, bool *channel_last, weir_error *err)
{
    const uint64_t C = config_conv_channels(cfg), K = cfg->conv_kernel;
    const bool     fits = t->rank == 3 && t->shape[0] == C;
    if (fits && t->shape[1] == 1 && t->shape[2] == K)
        *channel_last = false;
    else if (fits && t->shape[1] == K && t->shape[2] == 1)
        *channel_last = true;
    else
        return status_fail(err, WEIR_FORMAT,
                           "%s: %s: shape: expected [%" PRIu64 ", 1, %" PRIu64 "] or [%" PRIu64 ", %" PRIu64
                           ", 1], found %u dimensions [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", ...]",
                           t->file, t->raw_name, C, K, C, K, t->rank, t->shape[0], t->shape[1], t->shape[2]);
    return WEIR_OK;
}

/* *first is NULL when there is no conv kernel. */
static weir_status detect_conv(bool *channel_last, const checkpoint_tensor **first, const checkpoint *c,
                               weir_error *err)
{
    *first = NULL;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const checkpoint_tensor *t = checkpoint_at(c, i);
        if (t->part != CHECKPOINT_TRUNK || !ends_in(t->name, ".linear_attn.conv1d.weight")) continue;
        bool this_one = false;
        TRY(conv_layout(t, checkpoint_config(c), &this_one, err));
        if (*first == NULL) {
            *first        = t;
            *channel_last = this_one;
        } else if (this_one != *channel_last) {
            return status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected the layout of %s (%s), found the other one",
                               t->file, t->raw_name, (*first)->raw_name, *channel_last ? "[C,K,1]" : "[C,1,K]");
        }
    }
    return WEIR_OK;
}

static weir_status require_conv(const checkpoint *c, weir_error *err)
{
    const config *cfg = checkpoint_config(c);
    for (uint32_t i = 0; i < cfg->n_layers; i++)
        if (cfg->layers[i] == CONFIG_LINEAR)
            return status_fail(err, WEIR_FORMAT,
                               "%s: layers.%u.linear_attn.conv1d.weight: expected the tensor, found none",
                               checkpoint_path(c), i);
    return WEIR_OK;
}

static weir_status detect_trunk(checkpoint_convention *out, const checkpoint *c, weir_error *err)
{
    const checkpoint_tensor *conv, *norm;
    gain_form                form;
    TRY(detect_conv(&out->conv_channel_last, &conv, c, err));
    if (conv == NULL) TRY(require_conv(c, err));
    TRY(detect_gains(&form, &norm, c, CHECKPOINT_TRUNK, err));
    out->gain_minus_one = form == GAIN_MINUS_ONE;
    if (conv == NULL || out->gain_minus_one == !out->conv_channel_last) return WEIR_OK;
    return status_fail(
        err, WEIR_FORMAT, "%s: %s: norm gains: expected gains stored as %s like the layout %s of %s says, found %s",
        norm->file, norm->raw_name, out->conv_channel_last ? "gamma" : "gamma - 1",
        out->conv_channel_last ? "[C,K,1]" : "[C,1,K]", conv->raw_name, out->gain_minus_one ? "gamma - 1" : "gamma");
}

static bool has_part(const checkpoint *c, checkpoint_part part)
{
    for (size_t i = 0; i < checkpoint_count(c); i++)
        if (checkpoint_at(c, i)->part == part) return true;
    return false;
}

weir_status convention_detect(checkpoint_convention *out, const checkpoint *c, weir_error *err)
{
    *out = (checkpoint_convention){0};
    TRY(detect_trunk(out, c, err));
    out->has_mtp = checkpoint_config(c)->mtp_layers > 0 && has_part(c, CHECKPOINT_MTP);
    if (!out->has_mtp) return WEIR_OK;
    const checkpoint_tensor *norm;
    gain_form                form;
    TRY(detect_gains(&form, &norm, c, CHECKPOINT_MTP, err));
    out->mtp_gain_minus_one = form == GAIN_MINUS_ONE;
    return WEIR_OK;
}

/* -exp(A_log) is never positive, A_log is so for most heads. */
static weir_status check_rates(const checkpoint_tensor *t, weir_error *err)
{
    if (t->type != DTYPE_F32 && t->type != DTYPE_F16 && t->type != DTYPE_BF16) return WEIR_OK; /* refused when bound */
    for (uint64_t i = 0; t->rank == 1 && i < t->shape[0] && i < CONFIG_MAX_HEADS; i++)
        if (!(element(t, i) <= 0.0))
            return status_fail(err, WEIR_FORMAT, "%s: %s: expected decay rates -exp(A_log), found %g", t->file,
                               t->raw_name, element(t, i));
    return WEIR_OK;
}

weir_status convention_gguf(checkpoint_convention *out, const checkpoint *c, weir_error *err)
{
    double mean;
    *out = (checkpoint_convention){.decay_is_rate = true};
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const checkpoint_tensor *t = checkpoint_at(c, i);
        if (t->part == CHECKPOINT_TRUNK && ends_in(t->name, ".linear_attn.A_log")) TRY(check_rates(t, err));
    }
    TRY(mean_of_part(c, CHECKPOINT_TRUNK, &mean, err));
    if (form_of(mean, one_low, one_high) == GAIN_MINUS_ONE)
        return status_fail(err, WEIR_FORMAT,
                           "%s: norm gains: expected gamma, with a mean near 1, found a mean of %.3f as of gamma - 1",
                           checkpoint_path(c), mean);
    out->has_mtp = checkpoint_config(c)->mtp_layers > 0 && has_part(c, CHECKPOINT_MTP);
    return WEIR_OK;
}
