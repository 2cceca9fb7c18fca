/* checkpoint/config.c - config.json and generation_config.json as one struct.
 *
 * One table says which sizes are read, which are required and what range they
 * have; the functions below it check what a range cannot say. */
#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/config_read.h"

#include <stdio.h>
#include <string.h>

weir_status config_unsupported(const json_at *at, const char *key, const char *expected, const char *found,
                               weir_error *err)
{
    return status_fail(err, WEIR_UNSUPPORTED, "%s: %s%s%s: expected %s, found %s", at->file, at->where,
                       at->where[0] != '\0' ? "." : "", key, expected, found);
}

weir_status config_wrong(const json_at *at, const char *key, const char *expected, const char *found, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s%s%s: expected %s, found %s", at->file, at->where,
                       at->where[0] != '\0' ? "." : "", key, expected, found);
}

weir_status config_open_section(config_section *out, const json_at *parent, const char *key, weir_error *err)
{
    (void)snprintf(out->path, sizeof out->path, "%s%s%s", parent->where, parent->where[0] != '\0' ? "." : "", key);
    out->at = (json_at){.file = parent->file, .where = out->path};
    return json_get_object(parent, key, false, &out->at.obj, err);
}

/* A whole number of the text part.  Absent and not required: the field keeps what it has. */
typedef struct u32_key {
    const char *key;
    size_t      field;
    bool        required;
    uint32_t    min, max;
} u32_key;

#define KEY(key, field, required, min, max) \
    { \
        key, offsetof(config, field), required, min, max \
    }

static const u32_key common_keys[] = {
    KEY("hidden_size", hidden_size, true, 1, CONFIG_MAX_HIDDEN),
    KEY("num_hidden_layers", n_layers, true, 1, CONFIG_MAX_LAYERS),
    KEY("num_attention_heads", n_heads, true, 1, CONFIG_MAX_HEADS),
    KEY("num_key_value_heads", n_kv_heads, true, 1, CONFIG_MAX_HEADS),
    KEY("head_dim", head_dim, true, 2, CONFIG_MAX_DIM),
    KEY("vocab_size", vocab_size, true, 1, CONFIG_MAX_VOCAB),
    KEY("linear_num_key_heads", linear_n_key_heads, true, 1, CONFIG_MAX_HEADS),
    KEY("linear_num_value_heads", linear_n_value_heads, true, 1, CONFIG_MAX_HEADS),
    KEY("linear_key_head_dim", linear_key_dim, true, 1, CONFIG_MAX_DIM),
    KEY("linear_value_head_dim", linear_value_dim, true, 1, CONFIG_MAX_DIM),
    KEY("max_position_embeddings", max_position, false, 1, 1u << 30),
};

static const u32_key dense_keys[] = {
    KEY("intermediate_size", intermediate_size, true, 1, CONFIG_MAX_INNER),
};

static const u32_key moe_keys[] = {
    KEY("num_experts", n_experts, true, 1, CONFIG_MAX_EXPERTS),
    KEY("num_experts_per_tok", n_experts_per_token, true, 1, CONFIG_MAX_EXPERTS),
    KEY("moe_intermediate_size", moe_intermediate_size, true, 1, CONFIG_MAX_INNER),
    KEY("shared_expert_intermediate_size", shared_intermediate_size, true, 1, CONFIG_MAX_INNER),
};

#define READ_KEYS(c, at, table, err) read_keys(c, at, table, sizeof(table) / sizeof((table)[0]), err)

static weir_status read_keys(config *c, const json_at *at, const u32_key *keys, size_t n, weir_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t *field = (uint32_t *)(void *)((char *)c + keys[i].field);
        TRY(json_get_u32(at, keys[i].key, keys[i].required, keys[i].min, keys[i].max, field, err));
    }
    return WEIR_OK;
}

/* Models that share this graph, by the names their files give. */
typedef struct model_kind {
    const char *name;
    bool        is_moe;
} model_kind;

static const model_kind model_types[] = {
    {"qwen3_5", false}, {"qwen3_5_text", false}, {"qwen3_5_moe", true}, {"qwen3_5_moe_text", true}};
static const model_kind architectures[] = {{"Qwen3_5ForConditionalGeneration", false},
                                           {"Qwen3_5ForCausalLM", false},
                                           {"Qwen3_5MoeForConditionalGeneration", true},
                                           {"Qwen3_5MoeForCausalLM", true}};

static const model_kind *find_kind(const model_kind *table, const char *name)
{
    for (size_t i = 0; i < 4; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

static weir_status read_identity(config *c, const json_at *top, const json_at *text, weir_error *err)
{
    const char *type = NULL, *inner = NULL;
    TRY(json_get_string(top, "model_type", true, &type, err));
    const model_kind *kind = find_kind(model_types, type);
    if (kind == NULL)
        return config_unsupported(top, "model_type", "qwen3_5, qwen3_5_moe or one of these with _text", type, err);
    c->is_moe = kind->is_moe;

    TRY(json_get_string(text, "model_type", false, &inner, err));
    if (inner == NULL) inner = type;
    kind = find_kind(model_types, inner);
    if (kind == NULL)
        return config_unsupported(text, "model_type", c->is_moe ? "qwen3_5_moe_text" : "qwen3_5_text", inner, err);
    if (kind->is_moe != c->is_moe) return config_wrong(text, "model_type", "the kind of the whole model", inner, err);
    (void)snprintf(c->model_type, sizeof c->model_type, "%s", inner);

    const json_t *list;
    TRY(json_get_array(top, "architectures", false, &list, err));
    if (list == NULL || json_array_size(list) == 0) return WEIR_OK;
    const json_t *first = json_array_get(list, 0);
    if (!json_is_string(first)) return config_wrong(top, "architectures", "a list of strings", json_kind(first), err);
    kind = find_kind(architectures, json_string_value(first));
    if (kind == NULL)
        return config_unsupported(top, "architectures", "Qwen3_5[Moe]ForConditionalGeneration or ...ForCausalLM",
                                  json_string_value(first), err);
    if (kind->is_moe != c->is_moe)
        return config_wrong(top, "architectures", "what model_type says", json_string_value(first), err);
    return WEIR_OK;
}

/* A switch that must have one value where it is present at all. */
static weir_status require_bool(const json_at *at, const char *key, bool value, weir_error *err)
{
    bool found = value;
    TRY(json_get_bool(at, key, false, &found, err));
    if (found == value) return WEIR_OK;
    return config_unsupported(at, key, value ? "true" : "false", found ? "true" : "false", err);
}

/* What would change the graph. */
static weir_status check_switches(const config *c, const json_at *text, weir_error *err)
{
    const char *act = "silu", *gate = "swish";
    TRY(require_bool(text, "attn_output_gate", true, err));
    TRY(require_bool(text, "attention_bias", false, err));
    TRY(require_bool(text, "use_sliding_window", false, err));
    TRY(require_bool(text, "mtp_use_dedicated_embeddings", false, err));
    if (c->is_moe) TRY(require_bool(text, "norm_topk_prob", true, err));
    TRY(json_get_string(text, "hidden_act", false, &act, err));
    if (strcmp(act, "silu") != 0) return config_unsupported(text, "hidden_act", "silu", act, err);
    TRY(json_get_string(text, "output_gate_type", false, &gate, err));
    if (strcmp(gate, "swish") != 0 && strcmp(gate, "silu") != 0)
        return config_unsupported(text, "output_gate_type", "swish", gate, err);
    return WEIR_OK;
}

static weir_status divisible(const json_at *at, const char *key, uint32_t a, uint32_t b, weir_error *err)
{
    if (a % b == 0) return WEIR_OK;
    char expected[48], found[16];
    (void)snprintf(expected, sizeof expected, "a multiple of %u", b);
    (void)snprintf(found, sizeof found, "%u", a);
    return config_wrong(at, key, expected, found, err);
}

static weir_status bounded(const json_at *at, const char *key, uint32_t heads, uint32_t dim, weir_error *err)
{
    if ((uint64_t)heads * dim <= CONFIG_MAX_INNER) return WEIR_OK;
    char expected[64], found[48];
    (void)snprintf(expected, sizeof expected, "heads times size at most %d", CONFIG_MAX_INNER);
    (void)snprintf(found, sizeof found, "%u * %u", heads, dim);
    return config_wrong(at, key, expected, found, err);
}

static weir_status check_sizes(const config *c, const json_at *text, weir_error *err)
{
    TRY(divisible(text, "num_attention_heads", c->n_heads, c->n_kv_heads, err));
    TRY(divisible(text, "linear_num_value_heads", c->linear_n_value_heads, c->linear_n_key_heads, err));
    TRY(bounded(text, "head_dim", c->n_heads, c->head_dim, err));
    TRY(bounded(text, "linear_key_head_dim", c->linear_n_key_heads, c->linear_key_dim, err));
    TRY(bounded(text, "linear_value_head_dim", c->linear_n_value_heads, c->linear_value_dim, err));
    if (c->is_moe && c->n_experts_per_token > c->n_experts) {
        char expected[48], found[16];
        (void)snprintf(expected, sizeof expected, "at most num_experts (%u)", c->n_experts);
        (void)snprintf(found, sizeof found, "%u", c->n_experts_per_token);
        return config_wrong(text, "num_experts_per_tok", expected, found, err);
    }
    return WEIR_OK;
}

/* One tap would make the two layouts of the kernel look alike. */
static weir_status read_conv_kernel(config *c, const json_at *text, weir_error *err)
{
    c->conv_kernel = 4;
    TRY(json_get_u32(text, "linear_conv_kernel_dim", false, 0, UINT32_MAX, &c->conv_kernel, err));
    if (c->conv_kernel >= 2 && c->conv_kernel <= CONFIG_MAX_CONV) return WEIR_OK;
    char found[16];
    (void)snprintf(found, sizeof found, "%u", c->conv_kernel);
    return config_unsupported(text, "linear_conv_kernel_dim", "2..16", found, err);
}

static weir_status read_norm_eps(config *c, const json_at *text, weir_error *err)
{
    c->rms_norm_eps = 1e-6;
    TRY(json_get_double(text, "rms_norm_eps", false, &c->rms_norm_eps, err));
    if (c->rms_norm_eps >= 1e-30 && c->rms_norm_eps <= 0.1) return WEIR_OK;
    char found[32];
    (void)snprintf(found, sizeof found, "%g", c->rms_norm_eps);
    return config_wrong(text, "rms_norm_eps", "1e-30 to 0.1", found, err);
}

static weir_status read_sizes(config *c, const json_at *text, weir_error *err)
{
    c->max_position = 32768;
    TRY(READ_KEYS(c, text, common_keys, err));
    if (c->is_moe) {
        TRY(READ_KEYS(c, text, moe_keys, err));
    } else {
        uint32_t experts = 0;
        TRY(READ_KEYS(c, text, dense_keys, err));
        TRY(json_get_u32(text, "num_experts", false, 0, 0, &experts, err)); /* the model type says dense */
    }
    TRY(read_conv_kernel(c, text, err));
    TRY(read_norm_eps(c, text, err));
    return check_sizes(c, text, err);
}

static bool interval_says(const config *c, uint32_t layer, config_layer kind)
{
    const bool full = (layer + 1) % c->full_attention_interval == 0;
    return full == (kind == CONFIG_FULL);
}

static weir_status read_layer_list(config *c, const json_at *text, const json_t *list, bool check, weir_error *err)
{
    char where[48], expected[64];
    if (json_array_size(list) != c->n_layers) {
        (void)snprintf(expected, sizeof expected, "%u entries (num_hidden_layers)", c->n_layers);
        (void)snprintf(where, sizeof where, "%zu", json_array_size(list));
        return config_wrong(text, "layer_types", expected, where, err);
    }
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const json_t *v = json_array_get(list, i);
        (void)snprintf(where, sizeof where, "layer_types[%u]", i);
        if (!json_is_string(v)) return config_wrong(text, where, "a string", json_kind(v), err);
        const char *name = json_string_value(v);
        if (strcmp(name, "linear_attention") == 0)
            c->layers[i] = CONFIG_LINEAR;
        else if (strcmp(name, "full_attention") == 0)
            c->layers[i] = CONFIG_FULL;
        else
            return config_unsupported(text, where, "linear_attention or full_attention", name, err);
        if (check && !interval_says(c, i, (config_layer)c->layers[i])) {
            (void)snprintf(expected, sizeof expected, "what full_attention_interval %u says",
                           c->full_attention_interval);
            return config_wrong(text, where, expected, name, err);
        }
    }
    return WEIR_OK;
}

static weir_status read_layers(config *c, const json_at *text, weir_error *err)
{
    const json_t *list;
    TRY(json_get_array(text, "layer_types", false, &list, err));
    TRY(json_get_u32(text, "full_attention_interval", false, 1, CONFIG_MAX_LAYERS, &c->full_attention_interval, err));
    const bool stated = c->full_attention_interval != 0;
    if (list != NULL) return read_layer_list(c, text, list, stated, err);
    if (!stated) c->full_attention_interval = 4;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i] = interval_says(c, i, CONFIG_FULL) ? CONFIG_FULL : CONFIG_LINEAR;
    return WEIR_OK;
}

/* May stand at the top, in the text part, or in both. */
static weir_status read_tied(config *c, const json_at *top, const json_at *text, weir_error *err)
{
    TRY(json_get_bool(top, "tie_word_embeddings", false, &c->tie_word_embeddings, err));
    bool       inner  = c->tie_word_embeddings;
    const bool stated = json_is_boolean(json_object_get(top->obj, "tie_word_embeddings"));
    TRY(json_get_bool(text, "tie_word_embeddings", false, &inner, err));
    if (stated && inner != c->tie_word_embeddings)
        return config_wrong(text, "tie_word_embeddings", "what the top level says", inner ? "true" : "false", err);
    c->tie_word_embeddings = inner;
    return WEIR_OK;
}

static weir_status read_mtp(config *c, const json_at *text, weir_error *err)
{
    enum { ABSENT = 1000 };
    uint32_t a = ABSENT, b = ABSENT;
    TRY(json_get_u32(text, "mtp_num_hidden_layers", false, 0, 16, &a, err));
    TRY(json_get_u32(text, "num_nextn_predict_layers", false, 0, 16, &b, err));
    if (a != ABSENT && b != ABSENT && a != b)
        return config_wrong(text, "num_nextn_predict_layers", "what mtp_num_hidden_layers says", "another number", err);
    c->mtp_layers = a != ABSENT ? a : b != ABSENT ? b : 0;
    return WEIR_OK;
}

static weir_status read_vision(config *c, const json_at *top, weir_error *err)
{
    const json_t *vision;
    TRY(json_get_object(top, "vision_config", false, &vision, err));
    c->has_vision = vision != NULL;
    const struct {
        const char *key;
        uint32_t   *out;
    } ids[] = {{"image_token_id", &c->image_token},
               {"video_token_id", &c->video_token},
               {"vision_start_token_id", &c->vision_start_token},
               {"vision_end_token_id", &c->vision_end_token}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        *ids[i].out = CONFIG_NO_TOKEN;
        TRY(json_get_u32(top, ids[i].key, false, 0, c->vocab_size - 1, ids[i].out, err));
    }
    return WEIR_OK;
}

static weir_status add_eos(config *c, const json_at *at, const json_t *v, weir_error *err)
{
    char text[64];
    if (!json_is_integer(v)) return config_wrong(at, "eos_token_id", "an integer or a list of them", json_kind(v), err);
    const json_int_t id = json_integer_value(v);
    if (id < 0 || id >= (json_int_t)c->vocab_size) {
        char found[32];
        (void)snprintf(text, sizeof text, "0..%u", c->vocab_size - 1);
        (void)snprintf(found, sizeof found, "%" JSON_INTEGER_FORMAT, id);
        return config_wrong(at, "eos_token_id", text, found, err);
    }
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] == (uint32_t)id) return WEIR_OK;
    if (c->n_eos == CONFIG_MAX_EOS) {
        (void)snprintf(text, sizeof text, "at most %d ids", CONFIG_MAX_EOS);
        return config_wrong(at, "eos_token_id", text, "more", err);
    }
    c->eos[c->n_eos++] = (uint32_t)id;
    return WEIR_OK;
}

static weir_status read_eos(config *c, const json_at *at, weir_error *err)
{
    const json_t *v = json_object_get(at->obj, "eos_token_id");
    if (v == NULL || json_is_null(v)) return WEIR_OK;
    if (!json_is_array(v)) return add_eos(c, at, v, err);
    for (size_t i = 0; i < json_array_size(v); i++) TRY(add_eos(c, at, json_array_get(v, i), err));
    return WEIR_OK;
}

static weir_status read_generation(config *c, const json_at *at, weir_error *err)
{
    config_sampling *s = &c->sampling;
    if (at->obj == NULL) return WEIR_OK;
    TRY(read_eos(c, at, err));
    TRY(json_get_bool(at, "do_sample", false, &s->do_sample, err));
    TRY(json_get_u32(at, "top_k", false, 0, INT32_MAX, &s->top_k, err));
    TRY(json_get_double(at, "temperature", false, &s->temperature, err));
    TRY(json_get_double(at, "top_p", false, &s->top_p, err));
    char found[32];
    if (s->temperature < 0.0 || s->temperature > 100.0) {
        (void)snprintf(found, sizeof found, "%g", s->temperature);
        return config_wrong(at, "temperature", "0..100", found, err);
    }
    if (s->top_p <= 0.0 || s->top_p > 1.0) {
        (void)snprintf(found, sizeof found, "%g", s->top_p);
        return config_wrong(at, "top_p", "more than 0 and at most 1", found, err);
    }
    return WEIR_OK;
}

static weir_status read_text(config *c, const json_at *top, const json_at *text, weir_error *err)
{
    TRY(read_identity(c, top, text, err));
    TRY(check_switches(c, text, err));
    TRY(read_sizes(c, text, err));
    TRY(read_layers(c, text, err));
    TRY(config_read_rope(c, text, err));
    TRY(read_tied(c, top, text, err));
    TRY(read_mtp(c, text, err));
    TRY(read_vision(c, top, err));
    return config_read_quant(c, top, text, err);
}

static weir_status require_object(const json_doc *d, weir_error *err)
{
    if (json_is_object(d->root)) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: expected an object, found %s", d->name, json_kind(d->root));
}

static weir_status read_documents(config *c, const json_doc *main, const json_doc *generation, weir_error *err)
{
    const json_at top = {.file = main->name, .where = "", .obj = main->root};
    const json_at gen = {.file = generation->name, .where = "", .obj = generation->root};
    TRY(require_object(main, err));
    if (gen.obj != NULL) TRY(require_object(generation, err));

    config_section section;
    TRY(config_open_section(&section, &top, "text_config", err));
    const json_at text = section.at.obj != NULL ? section.at : top;

    c->sampling = (config_sampling){.do_sample = true, .temperature = 1.0, .top_p = 1.0};
    TRY(read_text(c, &top, &text, err));
    TRY(read_generation(c, &gen, err));
    TRY(read_eos(c, &top, err));
    return text.obj == top.obj ? WEIR_OK : read_eos(c, &text, err);
}

static weir_status finish(config *out, json_doc *main, json_doc *generation, weir_status st, weir_error *err)
{
    if (st == WEIR_OK) st = read_documents(out, main, generation, err);
    json_doc_free(main);
    json_doc_free(generation);
    if (st != WEIR_OK) config_free(out);
    return st;
}

weir_status config_parse(config *out, const config_text *main, const config_text *generation, weir_error *err)
{
    json_doc a = {0}, b = {0};
    *out           = (config){0};
    weir_status st = json_parse(&a, main->text, main->len, main->name, JSON_MAX_DEPTH, err);
    if (st == WEIR_OK && generation != NULL)
        st = json_parse(&b, generation->text, generation->len, generation->name, JSON_MAX_DEPTH, err);
    return finish(out, &a, &b, st, err);
}

static weir_status load_file(json_doc *out, const char *dir, const char *name, bool required, weir_error *err)
{
    char *path = path_join(dir, name);
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name);
    weir_status st = WEIR_OK;
    if (required || file_exists(path)) st = json_load(out, path, CONFIG_MAX_FILE, JSON_MAX_DEPTH, err);
    mem_free(path);
    return st;
}

weir_status config_load(config *out, const char *dir, weir_error *err)
{
    json_doc a = {0}, b = {0};
    *out           = (config){0};
    weir_status st = load_file(&a, dir, "config.json", true, err);
    if (st == WEIR_OK) st = load_file(&b, dir, "generation_config.json", false, err);
    return finish(out, &a, &b, st, err);
}

void config_free(config *c)
{
    for (size_t i = 0; i < c->quant.n_overrides; i++) mem_free(c->quant.overrides[i].path);
    mem_free(c->quant.overrides);
    *c = (config){0};
}
