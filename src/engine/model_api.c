/* engine/model_api.c - weir/model.h: a checkpoint with its tokenizer and template. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_parts.h"
#include "engine/gguf_text.h"
#include "engine/grammar_parts.h"
#include "text/chat.h"
#include "weir/experimental.h"

#include <string.h>

static void add_eos(weir_model *m, uint32_t id)
{
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return;
    if (m->n_eos < sizeof m->eos / sizeof *m->eos) m->eos[m->n_eos++] = id;
}

/* The files disagree about which id ends a turn, so all that are named do; the
 * two of the family stand in where none is. */
static void collect_eos(weir_model *m)
{
    const config *c = checkpoint_config(m->c);
    uint32_t      id;
    for (uint32_t i = 0; i < c->n_eos; i++) add_eos(m, c->eos[i]);
    if (m->tok == NULL) return;
    if (tokenizer_id(m->tok, "<|im_end|>", &id)) add_eos(m, id);
    if (c->n_eos == 0 && tokenizer_id(m->tok, "<|endoftext|>", &id)) add_eos(m, id);
}

/* Only a want of memory fails the opening. */
static weir_status keep_template_error(const weir_model *m, weir_status st, weir_error *err)
{
    if (st != WEIR_NO_MEMORY) return WEIR_OK;
    if (err != NULL) *err = m->no_chat;
    return st;
}

/* tokenizer.json and the chat template, where the directory has them; of a GGUF file
 * its own, for a folder of such files belongs to several models.  A model
 * without a usable template still completes raw text, so why it is unusable is
 * told where a chat is asked for. */
static weir_status open_text(weir_model *m, const char *dir, weir_error *err)
{
    const gguf *g = checkpoint_gguf(m->c);
    if (g != NULL) {
        TRY(gguf_tokenizer(&m->tok, g, err));
        return keep_template_error(m, gguf_chat_template(&m->chat, g, &m->no_chat), err);
    }
    char *path = path_join(dir, "tokenizer.json");
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    weir_status st = file_exists(path) ? tokenizer_open(&m->tok, path, err) : WEIR_OK;
    mem_free(path);
    return st != WEIR_OK ? st : keep_template_error(m, chat_template_load(&m->chat, dir, &m->no_chat), err);
}

/* Ids below the tokenizer's size that no token has must never be drawn. */
static weir_status find_gaps(weir_model *m, weir_error *err)
{
    const uint32_t n = tokenizer_size(m->tok);
    size_t         len;
    uint32_t       gaps = 0;
    for (uint32_t id = 0; id < n; id++) gaps += tokenizer_bytes(m->tok, id, &len) == NULL;
    if (gaps == 0) return WEIR_OK;
    m->allowed = mem_zalloc((n + 63) / 64, sizeof *m->allowed);
    if (m->allowed == NULL) return status_fail(err, WEIR_NO_MEMORY, "tokenizer: out of memory");
    for (uint32_t id = 0; id < n; id++)
        if (tokenizer_bytes(m->tok, id, &len) != NULL) m->allowed[id / 64] |= 1ull << id % 64;
    return WEIR_OK;
}

/* Read when an engine is opened, and only if it says nothing else. */
static weir_status find_kv_config(weir_model *m, const char *dir, weir_error *err)
{
    m->kv_config = path_join(dir, "kv_config.json");
    if (m->kv_config == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    if (file_exists(m->kv_config)) return WEIR_OK;
    mem_free(m->kv_config);
    m->kv_config = NULL;
    return WEIR_OK;
}

static weir_status finish_open(weir_model *m, const char *dir, weir_error *err)
{
    if (dir != NULL) TRY(open_text(m, dir, err));
    if (dir != NULL) TRY(find_kv_config(m, dir, err));
    const config *c = checkpoint_config(m->c);
    if (m->tok != NULL && tokenizer_size(m->tok) > c->vocab_size)
        return status_fail(err, WEIR_FORMAT, "%s: tokenizer.json: expected at most vocab_size = %u ids, found %u", dir,
                           c->vocab_size, tokenizer_size(m->tok));
    if (m->tok != NULL) TRY(find_gaps(m, err));
    if (m->tok != NULL) TRY(shelf_new(&m->grammars, tokenizer_size(m->tok), grammar_token_bytes, m, err));
    collect_eos(m);
    load_describe(&m->d, m->c);
    return WEIR_OK;
}

/* The directory of a path that may name a file in it; mem_free. */
static char *directory_of(const char *path)
{
    if (file_is_dir(path)) return mem_strdup(path);
    const char *slash = strrchr(path, '/');
    return slash == NULL ? mem_strdup(".") : mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

weir_status weir_model_open(weir_model **out, const char *path, weir_error *err)
{
    *out            = NULL;
    weir_model *m   = mem_zalloc(1, sizeof *m);
    char       *dir = directory_of(path);
    weir_status st;
    if (m == NULL || dir == NULL)
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    else
        st = checkpoint_open(&m->c, path, err);
    if (st == WEIR_OK) st = finish_open(m, dir, err);
    mem_free(dir);
    if (st != WEIR_OK)
        weir_model_close(m);
    else
        *out = m;
    return st;
}

weir_status weir_model_random(weir_model **out, const char *shape, const char *format, uint64_t seed, weir_error *err)
{
    *out          = NULL;
    weir_model *m = mem_zalloc(1, sizeof *m);
    if (m == NULL) return status_fail(err, WEIR_NO_MEMORY, "model: out of memory");
    weir_status st = load_random(&m->c, shape, format, seed, err);
    if (st == WEIR_OK) st = finish_open(m, NULL, err);
    if (st != WEIR_OK)
        weir_model_close(m);
    else
        *out = m;
    return st;
}

void weir_model_close(weir_model *m)
{
    if (m == NULL) return;
    shelf_free(m->grammars);
    tokenizer_free(m->tok);
    template_free(m->chat);
    mem_free(m->allowed);
    mem_free(m->kv_config);
    checkpoint_close(m->c);
    mem_free(m);
}

uint32_t model_valid_ids(const weir_model *m)
{
    return m->tok != NULL ? tokenizer_size(m->tok) : checkpoint_config(m->c)->vocab_size;
}

void weir_model_get_info(const weir_model *m, weir_model_info *out)
{
    const config                *c  = checkpoint_config(m->c);
    const checkpoint_convention *cv = checkpoint_conventions(m->c);
    const model_config           s  = load_config(c, false);
    *out                            = (weir_model_info){
                                   .path               = checkpoint_path(m->c),
                                   .model_type         = c->model_type,
                                   .layout             = cv->decay_is_rate       ? "gguf"
                                                         : cv->conv_channel_last ? "mlx"
                                                                                 : "huggingface",
                                   .weight_format      = m->d.format,
                                   .moe                = c->is_moe,
                                   .tied_head          = c->tie_word_embeddings,
                                   .has_mtp            = cv->has_mtp,
                                   .has_vision         = c->has_vision,
                                   .has_tokenizer      = m->tok != NULL,
                                   .has_chat_template  = m->chat != NULL,
                                   .n_layers           = c->n_layers,
                                   .n_attention_layers = s.n_attention_layers,
                                   .hidden_size        = c->hidden_size,
                                   .intermediate_size  = c->is_moe ? c->moe_intermediate_size : c->intermediate_size,
                                   .vocab_size         = c->vocab_size,
                                   .n_heads            = c->n_heads,
                                   .n_kv_heads         = c->n_kv_heads,
                                   .head_dim           = c->head_dim,
                                   .linear_key_heads   = c->linear_n_key_heads,
                                   .linear_value_heads = c->linear_n_value_heads,
                                   .linear_key_dim     = c->linear_key_dim,
                                   .linear_value_dim   = c->linear_value_dim,
                                   .n_experts          = c->n_experts,
                                   .experts_per_token  = c->n_experts_per_token,
                                   .max_position       = c->max_position,
                                   .n_tensors          = (uint32_t)checkpoint_count(m->c),
                                   .n_formats          = m->d.n_formats,
                                   .parameters         = m->d.parameters,
                                   .active_parameters  = m->d.active_parameters,
                                   .weights_bytes      = m->d.weights_bytes,
                                   .bytes_per_token    = m->d.bytes_per_token,
                                   .macs_per_token     = m->d.macs_per_token,
    };
}

weir_status weir_model_get_format(const weir_model *m, uint32_t i, weir_format_share *out)
{
    if (i >= m->d.n_formats) return WEIR_INVALID;
    const load_format *f = &m->d.formats[i];
    *out                 = (weir_format_share){.format = f->name, .bytes = f->bytes, .n_weights = f->n};
    return WEIR_OK;
}

weir_status weir_model_get_tensor(const weir_model *m, uint32_t i, weir_tensor_info *out)
{
    if (i >= checkpoint_count(m->c)) return WEIR_INVALID;
    const checkpoint_tensor *t = checkpoint_at(m->c, i);
    *out                       = (weir_tensor_info){
                              .name = t->raw_name, .file = t->file, .dtype = t->type_name, .rank = t->rank, .bytes = t->bytes};
    memcpy(out->shape, t->shape, sizeof out->shape);
    return WEIR_OK;
}

void weir_model_get_sampling(const weir_model *m, weir_sampling_defaults *out)
{
    const config_sampling *s = &checkpoint_config(m->c)->sampling;
    *out =
        (weir_sampling_defaults){.temperature = !s->do_sample          ? 0.0f
                                                : s->temperature > 5.0 ? 5.0f
                                                                       : (float)s->temperature,
                                 .top_p       = (float)s->top_p,
                                 .top_k       = s->top_k,
                                 .present = !s->do_sample || s->temperature != 1.0 || s->top_p != 1.0 || s->top_k != 0};
}

const uint32_t *weir_model_eos_ids(const weir_model *m, size_t *n)
{
    *n = m->n_eos;
    return m->eos;
}

weir_status model_same_tokens(const weir_model *a, const weir_model *b, weir_error *err)
{
    const uint32_t n = model_valid_ids(a), n_b = model_valid_ids(b);
    if (n != n_b || (a->tok == NULL) != (b->tok == NULL))
        return status_fail(err, WEIR_INVALID, "draft model: expected the model's %u tokens, found %u", n, n_b);
    for (uint32_t id = 0; a->tok != NULL && id < n; id++) {
        size_t         len_a = 0, len_b = 0;
        const uint8_t *x = tokenizer_bytes(a->tok, id, &len_a), *y = tokenizer_bytes(b->tok, id, &len_b);
        if ((x == NULL) != (y == NULL) || len_a != len_b || (x != NULL && memcmp(x, y, len_a) != 0))
            return status_fail(err, WEIR_INVALID, "draft model: token %u is another one than the model's", id);
    }
    return WEIR_OK;
}
