/* text/tokenizer_parts.h - what a tokenizer is made of.
 *
 * tokenizer_file.c fills it, tokenizer.c uses it; for nobody else. */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/normalise.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct tokenizer {
    vocab         vocab;
    bpe           bpe;
    pretokenizer *pattern;
    bool          nfc; /* the file asks for it */
    normaliser    normaliser;
    added_set     added;            /* all, by their text */
    added_set     added_raw;        /* those found in the text as it is */
    added_set     added_normalised; /* those found in normalised text, by their normalised text */
};

#endif
