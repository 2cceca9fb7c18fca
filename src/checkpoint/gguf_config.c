/* checkpoint/gguf_config.c - GGUF metadata as the one config struct.
 *
 * Two writers are in use for this family, llama.cpp's and ollama's.  They agree
 * about the tensors' values; where they differ in keys both forms are read. */
#include "base/mem.h"
#include "checkpoint/gguf_model.h"

#include <stdio.h>
#include <string.h>

enum { MAX_KEY_LEN = 96 };

/* The metadata and the prefix of the architecture's keys. */
typedef struct reader {
    const gguf_set *set;
    const gguf     *g;
    char            arch[16];
    config         *c;
} reader;

/* "qwen35.<rest>" in a buffer of the caller. */
static const char *key_of(char buf[MAX_KEY_LEN], const reader *r, const char *rest)
{
    (void)snprintf(buf, MAX_KEY_LEN, "%s.%s", r->arch, rest);
    return buf;
}

static weir_status get_u32(const reader *r, const char *rest, bool required, uint32_t min, uint32_t max, uint32_t *out,
                           weir_error *err)
{
    char key[MAX_KEY_LEN];
    return gguf_get_u32(r->g, key_of(key, r, rest), required, min, max, out, err);
}

static weir_status wrong(const reader *r, const char *rest, const char *expected, const char *found, weir_error *err)
{
    char key[MAX_KEY_LEN];
    return gguf_wrong(r->g, key_of(key, r, rest), expected, found, err);
}

/* What would change the graph. */
static weir_status unsupported(const reader *r, const char *rest, const char *expected, const char *found,
                               weir_error *err)
{
    return status_fail(err, WEIR_UNSUPPORTED, "%s: %s.%s: expected %s, found %s", r->g->path, r->arch, rest, expected,
                       found);
}

static weir_status read_architecture(reader *r, weir_error *err)
{
    gguf_string arch = {"", 0};
    TRY(gguf_get_string(r->g, "general.architecture", true, &arch, err));
    (void)snprintf(r->arch, sizeof r->arch, "%.*s", (int)(arch.len < sizeof r->arch ? arch.len : sizeof r->arch - 1),
                   arch.text);
    r->c->is_moe = strcmp(r->arch, "qwen35moe") == 0;
    if (!r->c->is_moe && strcmp(r->arch, "qwen35") != 0)
        return status_fail(err, WEIR_UNSUPPORTED,
                           "%s: general.architecture: expected qwen35 or qwen35moe, found \"%.*s\"", r->g->path,
                           (int)(arch.len < 64 ? arch.len : 64), arch.text);
    (void)snprintf(r->c->model_type, sizeof r->c->model_type, "%s", r->c->is_moe ? "qwen3_5_moe_text" : "qwen3_5_text");
    return WEIR_OK;
}

/* A whole number that is always there. */
typedef struct u32_key {
    const char *key;
    size_t      field;
    uint32_t    min, max;
} u32_key;

#define KEY(key, field, min, max) \
    { \
        key, offsetof(config, field), min, max \
    }

static const u32_key common_keys[] = {
    KEY("embedding_length", hidden_size, 1, CONFIG_MAX_HIDDEN),
    KEY("context_length", max_position, 1, 1u << 30),
    KEY("attention.head_count", n_heads, 1, CONFIG_MAX_HEADS),
    KEY("attention.key_length", head_dim, 2, CONFIG_MAX_DIM),
    KEY("ssm.group_count", linear_n_key_heads, 1, CONFIG_MAX_HEADS),
    KEY("ssm.time_step_rank", linear_n_value_heads, 1, CONFIG_MAX_HEADS),
    KEY("ssm.state_size", linear_key_dim, 1, CONFIG_MAX_DIM),
    KEY("ssm.conv_kernel", conv_kernel, 2, CONFIG_MAX_CONV),
};

static const u32_key dense_keys[] = {
    KEY("feed_forward_length", intermediate_size, 1, CONFIG_MAX_INNER),
};

static const u32_key moe_keys[] = {
    KEY("expert_count", n_experts, 1, CONFIG_MAX_EXPERTS),
    KEY("expert_used_count", n_experts_per_token, 1, CONFIG_MAX_EXPERTS),
    KEY("expert_feed_forward_length", moe_intermediate_size, 1, CONFIG_MAX_INNER),
    KEY("expert_shared_feed_forward_length", shared_intermediate_size, 1, CONFIG_MAX_INNER),
};

#define READ_KEYS(r, table, err) read_keys(r, table, sizeof(table) / sizeof((table)[0]), err)

static weir_status read_keys(const reader *r, const u32_key *keys, size_t n, weir_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t *field = (uint32_t *)(void *)((char *)r->c + keys[i].field);
        TRY(get_u32(r, keys[i].key, true, keys[i].min, keys[i].max, field, err));
    }
    return WEIR_OK;
}

static weir_status read_sizes(const reader *r, weir_error *err)
{
    config  *c     = r->c;
    uint32_t value = 0, inner = 0, blocks = 0;
    char     found[48];
    TRY(READ_KEYS(r, common_keys, err));
    TRY(c->is_moe ? READ_KEYS(r, moe_keys, err) : READ_KEYS(r, dense_keys, err));
    TRY(get_u32(r, "nextn_predict_layers", false, 0, 16, &c->mtp_layers, err));
    TRY(get_u32(r, "block_count", true, c->mtp_layers + 1, CONFIG_MAX_LAYERS, &blocks, err));
    c->n_layers = blocks - c->mtp_layers;

    value = c->head_dim;
    TRY(get_u32(r, "attention.value_length", false, 1, CONFIG_MAX_DIM, &value, err));
    if (value != c->head_dim) {
        (void)snprintf(found, sizeof found, "%u", value);
        return unsupported(r, "attention.value_length", "what attention.key_length says", found, err);
    }
    TRY(get_u32(r, "ssm.inner_size", true, 1, CONFIG_MAX_INNER, &inner, err));
    c->linear_value_dim = inner / c->linear_n_value_heads;
    if (inner % c->linear_n_value_heads != 0 || c->linear_value_dim > CONFIG_MAX_DIM) {
        (void)snprintf(found, sizeof found, "%u for %u heads", inner, c->linear_n_value_heads);
        return wrong(r, "ssm.inner_size", "a multiple of ssm.time_step_rank, heads of at most 1024", found, err);
    }
    char key[MAX_KEY_LEN];
    return gguf_get_double(r->g, key_of(key, r, "attention.layer_norm_rms_epsilon"), true, 1e-30, 0.1, &c->rms_norm_eps,
                           err);
}

static weir_status check_sizes(const reader *r, weir_error *err)
{
    const config *c = r->c;
    char          found[64];
    (void)snprintf(found, sizeof found, "%u", c->linear_n_value_heads);
    if (c->linear_n_value_heads % c->linear_n_key_heads != 0)
        return wrong(r, "ssm.time_step_rank", "a multiple of ssm.group_count", found, err);
    (void)snprintf(found, sizeof found, "%u", c->n_heads);
    if (c->n_heads % c->n_kv_heads != 0)
        return wrong(r, "attention.head_count", "a multiple of attention.head_count_kv", found, err);
    (void)snprintf(found, sizeof found, "%u heads of %u", c->n_heads, c->head_dim);
    if ((uint64_t)c->n_heads * c->head_dim > CONFIG_MAX_INNER)
        return wrong(r, "attention.key_length", "at most 2^20 for all heads", found, err);
    (void)snprintf(found, sizeof found, "%u heads of %u", c->linear_n_key_heads, c->linear_key_dim);
    if ((uint64_t)c->linear_n_key_heads * c->linear_key_dim > CONFIG_MAX_INNER)
        return wrong(r, "ssm.state_size", "at most 2^20 for all heads", found, err);
    (void)snprintf(found, sizeof found, "%u of %u", c->n_experts_per_token, c->n_experts);
    if (c->n_experts_per_token > c->n_experts) return wrong(r, "expert_used_count", "at most expert_count", found, err);
    return WEIR_OK;
}

/* What the known files either leave out or say. */
static weir_status check_switches(const reader *r, weir_error *err)
{
    char        key[MAX_KEY_LEN];
    bool        on      = true;
    uint32_t    softmax = 1;
    gguf_string scaling = {"none", 4};
    TRY(gguf_get_bool(r->g, key_of(key, r, "norm_top_k_prob"), false, &on, err));
    if (!on) return unsupported(r, "norm_top_k_prob", "true", "false", err);
    TRY(get_u32(r, "expert_gating_func", false, 0, UINT32_MAX, &softmax, err));
    if (softmax != 1) return unsupported(r, "expert_gating_func", "1 (softmax)", "another number", err);
    TRY(gguf_get_string(r->g, key_of(key, r, "rope.scaling.type"), false, &scaling, err));
    if (scaling.len != 4 || memcmp(scaling.text, "none", 4) != 0)
        return unsupported(r, "rope.scaling.type", "none", "another kind of scaling", err);
    r->c->linear_heads_tiled = true;
    return gguf_get_bool(r->g, key_of(key, r, "ssm.v_head_reordered"), false, &r->c->linear_heads_tiled, err);
}

/* One number, or with ollama one a layer, 0 where a layer has no attention.
 * *list is NULL for the former. */
static weir_status read_kv_heads(const reader *r, const gguf_entry **list, weir_error *err)
{
    char              key[MAX_KEY_LEN];
    const char       *rest = "attention.head_count_kv";
    config           *c    = r->c;
    const gguf_entry *e    = gguf_find(r->g, key_of(key, r, rest));
    *list                  = NULL;
    if (e == NULL || !e->array) return get_u32(r, rest, true, 1, CONFIG_MAX_HEADS, &c->n_kv_heads, err);
    TRY(gguf_get_array(r->g, key, true, GGUF_U32, list, err));
    if ((*list)->n < c->n_layers) return wrong(r, rest, "an entry for every layer", "fewer", err);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const int64_t n = gguf_integer(*list, i);
        if (n < 0 || n > CONFIG_MAX_HEADS) return wrong(r, rest, "entries of 0..1024", "another number", err);
        if (n == 0) continue;
        if (c->n_kv_heads != 0 && n != c->n_kv_heads)
            return wrong(r, rest, "the same number in all attention layers", "several", err);
        c->n_kv_heads = (uint32_t)n;
    }
    return c->n_kv_heads != 0 ? WEIR_OK : wrong(r, rest, "a layer with attention", "none", err);
}

static weir_status read_layers(const reader *r, weir_error *err)
{
    char              key[MAX_KEY_LEN];
    config           *c    = r->c;
    const gguf_entry *list = NULL, *heads = NULL;
    uint32_t          interval = 0;
    TRY(read_kv_heads(r, &heads, err));
    TRY(gguf_get_array(r->g, key_of(key, r, "attention.recurrent_layers"), false, GGUF_BOOL, &list, err));
    TRY(get_u32(r, "full_attention_interval", false, 1, CONFIG_MAX_LAYERS, &interval, err));
    if (list != NULL && list->n < c->n_layers)
        return wrong(r, "attention.recurrent_layers", "an entry for every layer", "fewer", err);
    if (list == NULL && heads == NULL && interval == 0) interval = 4;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const bool full = list != NULL    ? gguf_integer(list, i) == 0
                          : heads != NULL ? gguf_integer(heads, i) != 0
                                          : (i + 1) % interval == 0;
        c->layers[i]    = full ? CONFIG_FULL : CONFIG_LINEAR;
    }
    if (list == NULL && heads == NULL) c->full_attention_interval = interval;
    return WEIR_OK;
}

static weir_status read_rope(const reader *r, weir_error *err)
{
    char              key[MAX_KEY_LEN];
    config_rope      *rope     = &r->c->rope;
    const gguf_entry *sections = NULL;
    int64_t           sum      = 0;
    TRY(gguf_get_double(r->g, key_of(key, r, "rope.freq_base"), true, 1.5, 1e12, &rope->theta, err));
    TRY(get_u32(r, "rope.dimension_count", true, 2, r->c->head_dim, &rope->rotary_dim, err));
    if (rope->rotary_dim % 2 != 0) return wrong(r, "rope.dimension_count", "an even number", "an odd one", err);
    rope->type                  = CONFIG_ROPE_DEFAULT;
    rope->factor                = 1.0;
    rope->attention_factor      = 1.0;
    rope->partial_rotary_factor = (double)rope->rotary_dim / r->c->head_dim;
    TRY(gguf_get_array(r->g, key_of(key, r, "rope.dimension_sections"), false, GGUF_U32, &sections, err));
    if (sections == NULL) return WEIR_OK;
    for (uint64_t i = 0; i < sections->n && i < 4; i++) {
        const int64_t n = gguf_integer(sections, i);
        if (n < 0 || n > CONFIG_MAX_DIM || (i == 3 && n != 0))
            return wrong(r, "rope.dimension_sections", "three small numbers and perhaps a 0", "others", err);
        if (i < 3) rope->mrope_section[i] = (uint32_t)n;
        sum += n;
    }
    if (sections->n < 3 || sections->n > 4 || sum != rope->rotary_dim / 2)
        return wrong(r, "rope.dimension_sections", "three numbers that add up to half of rope.dimension_count",
                     "others", err);
    rope->mrope_interleaved = true;
    return WEIR_OK;
}

/* ---- vocabulary ---- */

static void add_eos(config *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id) return;
    if (c->n_eos < CONFIG_MAX_EOS) c->eos[c->n_eos++] = id;
}

/* The ids that end a text: those that are named, and <|endoftext|>, which the
 * family's own files name beside <|im_end|> but for which GGUF has no key. */
static weir_status read_eos(const reader *r, weir_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    static const char        text[] = "<|endoftext|>";
    const gguf_entry        *list = NULL, *tokens = NULL;
    config                  *c = r->c;
    for (size_t i = 0; i < 2; i++) {
        uint32_t id = CONFIG_NO_TOKEN;
        TRY(gguf_get_u32(r->g, keys[i], false, 0, c->vocab_size - 1, &id, err));
        if (id != CONFIG_NO_TOKEN) add_eos(c, id);
    }
    TRY(gguf_get_array(r->g, "tokenizer.ggml.eos_token_ids", false, GGUF_U32, &list, err));
    for (uint64_t i = 0; list != NULL && i < list->n; i++) {
        const int64_t id = gguf_integer(list, i);
        if (id < 0 || id >= c->vocab_size)
            return gguf_wrong(r->g, "tokenizer.ggml.eos_token_ids", "ids of the vocabulary", "others", err);
        add_eos(c, (uint32_t)id);
    }
    TRY(gguf_get_array(r->g, "tokenizer.ggml.tokens", false, GGUF_STRING, &tokens, err));
    const uint8_t *at = tokens != NULL ? tokens->data : NULL;
    for (uint32_t i = 0; tokens != NULL && i < tokens->n; i++) {
        const gguf_string s = gguf_next_string(&at);
        if (s.len == sizeof text - 1 && memcmp(s.text, text, s.len) == 0) add_eos(c, i);
    }
    return WEIR_OK;
}

static weir_status read_vocabulary(const reader *r, weir_error *err)
{
    config            *c      = r->c;
    const gguf_entry  *tokens = NULL;
    const gguf_tensor *t      = gguf_set_find(r->set, "token_embd.weight");
    if (t == NULL)
        return status_fail(err, WEIR_FORMAT, "%s: token_embd.weight: expected the tensor, found none", r->g->path);
    if (t->rank != 2 || t->shape[0] > CONFIG_MAX_VOCAB)
        return status_fail(err, WEIR_FORMAT, "%s: token_embd.weight: expected two dimensions, at most %d rows",
                           r->g->path, CONFIG_MAX_VOCAB);
    c->vocab_size          = (uint32_t)t->shape[0];
    c->tie_word_embeddings = gguf_set_find(r->set, "output.weight") == NULL;
    TRY(gguf_get_array(r->g, "tokenizer.ggml.tokens", false, GGUF_STRING, &tokens, err));
    if (tokens != NULL && tokens->n != c->vocab_size) {
        char expected[64], found[24];
        (void)snprintf(expected, sizeof expected, "as many as token_embd.weight has rows, %u", c->vocab_size);
        (void)snprintf(found, sizeof found, "%llu", (unsigned long long)tokens->n);
        return gguf_wrong(r->g, "tokenizer.ggml.tokens", expected, found, err);
    }
    c->image_token = c->video_token = c->vision_start_token = c->vision_end_token = CONFIG_NO_TOKEN;
    return read_eos(r, err);
}

static weir_status read_sampling(const reader *r, weir_error *err)
{
    config_sampling *s = &r->c->sampling;
    *s                 = (config_sampling){.do_sample = true, .temperature = 1.0, .top_p = 1.0};
    TRY(gguf_get_u32(r->g, "general.sampling.top_k", false, 0, INT32_MAX, &s->top_k, err));
    TRY(gguf_get_double(r->g, "general.sampling.temp", false, 0.0, 100.0, &s->temperature, err));
    return gguf_get_double(r->g, "general.sampling.top_p", false, 1e-6, 1.0, &s->top_p, err);
}

static weir_status read_all(reader *r, weir_error *err)
{
    TRY(read_architecture(r, err));
    TRY(read_sizes(r, err));
    TRY(read_layers(r, err));
    TRY(check_sizes(r, err));
    TRY(check_switches(r, err));
    TRY(read_rope(r, err));
    TRY(read_vocabulary(r, err));
    return read_sampling(r, err);
}

weir_status gguf_read_config(config *out, const gguf_set *s, weir_error *err)
{
    *out                 = (config){0};
    reader            r  = {.set = s, .g = &s->files[0], .c = out};
    const weir_status st = read_all(&r, err);
    if (st != WEIR_OK) config_free(out);
    return st;
}
