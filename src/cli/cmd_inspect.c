/* cli/cmd_inspect.c - `weir inspect`: what a checkpoint holds. */
#include "cli/cli.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const arg_option inspect_options[] = {
    {"--tensors", NULL, ARG_FLAG, offsetof(options, tensors), 0, NULL, 0, 0, "list every tensor (--json always does)"},
};
static const arg_group        inspect_group = ARG_GROUP("Options", inspect_options);
static const arg_group *const groups[]      = {&inspect_group, &options_common, NULL};

static json_t *tensor_json(const weir_tensor_info *t)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->rank; d++) (void)json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    return json_pack("{s:s, s:s, s:s, s:o, s:I}", "name", t->name, "file", t->file, "dtype", t->dtype, "shape", shape,
                     "bytes", (json_int_t)t->bytes);
}

/* The counts and sizes, which come in the same order for people and programs. */
typedef struct count {
    const char *key;
    uint64_t    value;
} count;

enum { N_COUNTS = 21 };
static void list_counts(const weir_model_info *i, count out[N_COUNTS])
{
    const count all[N_COUNTS] = {{"n_layers", i->n_layers},
                                 {"n_attention_layers", i->n_attention_layers},
                                 {"hidden_size", i->hidden_size},
                                 {"intermediate_size", i->intermediate_size},
                                 {"vocab_size", i->vocab_size},
                                 {"n_heads", i->n_heads},
                                 {"n_kv_heads", i->n_kv_heads},
                                 {"head_dim", i->head_dim},
                                 {"linear_key_heads", i->linear_key_heads},
                                 {"linear_value_heads", i->linear_value_heads},
                                 {"linear_key_dim", i->linear_key_dim},
                                 {"linear_value_dim", i->linear_value_dim},
                                 {"n_experts", i->n_experts},
                                 {"experts_per_token", i->experts_per_token},
                                 {"max_position", i->max_position},
                                 {"n_tensors", i->n_tensors},
                                 {"parameters", i->parameters},
                                 {"active_parameters", i->active_parameters},
                                 {"weights_bytes", i->weights_bytes},
                                 {"bytes_per_token", i->bytes_per_token},
                                 {"macs_per_token", i->macs_per_token}};
    for (size_t k = 0; k < N_COUNTS; k++) out[k] = all[k];
}

static double share_of(const weir_format_share *f, const weir_model_info *i)
{
    return i->weights_bytes > 0 ? (double)f->bytes / (double)i->weights_bytes : 0.0;
}

static json_t *formats_json(const weir_model *m, const weir_model_info *i)
{
    json_t           *list = json_array();
    weir_format_share f;
    for (uint32_t k = 0; k < i->n_formats && weir_model_get_format(m, k, &f) == WEIR_OK; k++)
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:I, s:f, s:I}", "format", f.format, "bytes", (json_int_t)f.bytes,
                                              "share", share_of(&f, i), "weights", (json_int_t)f.n_weights));
    return list;
}

static int print_json(const weir_model *m, const weir_model_info *i)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b}", "path", i->path, "model_type",
                          i->model_type, "layout", i->layout, "weight_format", i->weight_format, "moe", i->moe,
                          "tied_head", i->tied_head, "has_mtp", i->has_mtp, "has_vision", i->has_vision,
                          "has_tokenizer", i->has_tokenizer, "has_chat_template", i->has_chat_template);
    count   counts[N_COUNTS];
    list_counts(i, counts);
    for (size_t k = 0; k < N_COUNTS; k++)
        (void)json_object_set_new(o, counts[k].key, json_integer((json_int_t)counts[k].value));

    weir_sampling_defaults d;
    weir_model_get_sampling(m, &d);
    (void)json_object_set_new(o, "sampling",
                              json_pack("{s:f, s:f, s:I, s:b}", "temperature", (double)d.temperature, "top_p",
                                        (double)d.top_p, "top_k", (json_int_t)d.top_k, "present", d.present));
    size_t          n_eos;
    const uint32_t *eos  = weir_model_eos_ids(m, &n_eos);
    json_t         *list = json_array();
    for (size_t k = 0; k < n_eos; k++) (void)json_array_append_new(list, json_integer(eos[k]));
    (void)json_object_set_new(o, "eos_ids", list);

    (void)json_object_set_new(o, "formats", formats_json(m, i));

    json_t          *tensors = json_array();
    weir_tensor_info t;
    for (uint32_t k = 0; k < i->n_tensors && weir_model_get_tensor(m, k, &t) == WEIR_OK; k++)
        (void)json_array_append_new(tensors, tensor_json(&t));
    (void)json_object_set_new(o, "tensors", tensors);
    return cli_print_json(o);
}

static const char *yes_no(bool b)
{
    return b ? "yes" : "no";
}

/* A text from the checkpoint, filled up to `width`, and a blank. */
static void put_column(const char *text, size_t width)
{
    const size_t n = cli_put_clean(stdout, text, strlen(text));
    (void)printf("%*s", (int)(n < width ? width - n + 1 : 1), "");
}

static void print_tensors(const weir_model *m, uint32_t n)
{
    weir_tensor_info t;
    (void)printf("\n%-64s %-8s %14s  shape\n", "tensor", "dtype", "bytes");
    for (uint32_t k = 0; k < n && weir_model_get_tensor(m, k, &t) == WEIR_OK; k++) {
        put_column(t.name, 64);
        put_column(t.dtype, 8);
        (void)printf("%14" PRIu64 "  [", t.bytes);
        for (uint32_t d = 0; d < t.rank; d++) (void)printf("%s%" PRIu64, d > 0 ? ", " : "", t.shape[d]);
        (void)fputs("]\n", stdout);
    }
}

/* One format needs no list. */
static void print_formats(const weir_model *m, const weir_model_info *i)
{
    weir_format_share f;
    for (uint32_t k = 0; i->n_formats > 1 && k < i->n_formats && weir_model_get_format(m, k, &f) == WEIR_OK; k++)
        (void)printf("%-17s %-14s %5.1f %%, %.1f MB, %" PRIu32 " weights\n", k == 0 ? "formats" : "", f.format,
                     share_of(&f, i) * 100.0, (double)f.bytes * 1e-6, f.n_weights);
}

static void print_summary(const weir_model *m, const weir_model_info *i)
{
    weir_sampling_defaults d;
    weir_model_get_sampling(m, &d);
    (void)fputs("path              ", stdout);
    (void)cli_put_clean(stdout, i->path, strlen(i->path));
    (void)fputs("\nmodel             ", stdout);
    (void)cli_put_clean(stdout, i->model_type, strlen(i->model_type));
    (void)printf(", %s, %.2f M parameters", i->moe ? "mixture of experts" : "dense", (double)i->parameters * 1e-6);
    if (i->moe) (void)printf(" (%.2f M for a token)", (double)i->active_parameters * 1e-6);
    (void)printf("\nlayers            %" PRIu32 ": %" PRIu32 " gated DeltaNet, %" PRIu32 " attention\n", i->n_layers,
                 i->n_layers - i->n_attention_layers, i->n_attention_layers);
    (void)printf("hidden, mlp       %" PRIu32 ", %" PRIu32 "\n", i->hidden_size, i->intermediate_size);
    (void)printf("attention         %" PRIu32 " heads, %" PRIu32 " for keys and values, of %" PRIu32 "\n", i->n_heads,
                 i->n_kv_heads, i->head_dim);
    (void)printf("DeltaNet          %" PRIu32 " key heads of %" PRIu32 ", %" PRIu32 " value heads of %" PRIu32 "\n",
                 i->linear_key_heads, i->linear_key_dim, i->linear_value_heads, i->linear_value_dim);
    if (i->n_experts > 0)
        (void)printf("experts           %" PRIu32 ", %" PRIu32 " for a token\n", i->n_experts, i->experts_per_token);
    (void)printf("vocabulary        %" PRIu32 ", head %s\n", i->vocab_size,
                 i->tied_head ? "tied to the embedding" : "of its own");
    (void)printf("context           %" PRIu32 " tokens\n", i->max_position);
    (void)printf("weights           %s, %.1f MB, %.1f MB read for a token\n", i->weight_format,
                 (double)i->weights_bytes * 1e-6, (double)i->bytes_per_token * 1e-6);
    print_formats(m, i);
    (void)printf("layout            %s, %" PRIu32 " tensors\n", i->layout, i->n_tensors);
    (void)printf("parts             tokenizer %s, chat template %s, MTP %s, vision %s\n", yes_no(i->has_tokenizer),
                 yes_no(i->has_chat_template), yes_no(i->has_mtp), yes_no(i->has_vision));
    (void)printf("sampling          temperature %g, top-p %g, top-k %" PRIu32 "%s\n", (double)d.temperature,
                 (double)d.top_p, d.top_k, d.present ? "" : " (the checkpoint gives no advice)");
}

static int inspect(const options *o)
{
    session    s;
    weir_error err;
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);
    weir_model_info info;
    weir_model_get_info(s.model, &info);
    int code;
    if (o->json) {
        code = print_json(s.model, &info);
    } else {
        print_summary(s.model, &info);
        if (o->tensors) print_tensors(s.model, info.n_tensors);
        code = cli_flush();
    }
    session_close(&s);
    return code;
}

const command cmd_inspect = {
    .name    = "inspect",
    .summary = "show what a checkpoint holds",
    .usage   = "MODEL [options]",
    .details = "Architecture, sizes, weight format, and which parts are there.  Reads headers only.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = inspect,
};
