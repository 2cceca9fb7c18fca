/* engine/gguf_text.h - tokenizer and chat template out of a GGUF file's metadata. */
#ifndef ENGINE_GGUF_TEXT_H
#define ENGINE_GGUF_TEXT_H

#include "checkpoint/gguf.h"
#include "text/template.h"
#include "text/tokenizer.h"

/* *out is NULL, and that is no failure, when the file has no tokens. */
weir_status gguf_tokenizer(tokenizer **out, const gguf *g, weir_error *err);

/* WEIR_UNSUPPORTED when the file has no template. */
weir_status gguf_chat_template(template **out, const gguf *g, weir_error *err);

#endif
