/* grammar/frames.h - the calls that are open, as a tree with its leaves on top.
 *
 * Places in a grammar share what they have in common: a frame is where to go on when
 * a rule ends, with the caller's data, on top of another frame.  Equal frames are
 * one, so that equal places are equal numbers.  Frames are dropped from the newest. */
#ifndef GRAMMAR_FRAMES_H
#define GRAMMAR_FRAMES_H

#include "base/status.h"

#include <stdbool.h>

/* Frame 0 is under all others: the end of the text, or of what is known. */
enum { FRAME_BOTTOM = 0, FRAME_NONE = UINT32_MAX, FRAME_HEADS = 256, FRAME_DEPTH_MOST = 1000 };

typedef struct frame {
    uint64_t data;
    uint32_t back; /* the node to go on at */
    uint32_t below;
    uint32_t next; /* of the same hash */
    uint32_t depth;
} frame;

typedef struct frames {
    frame   *f; /* [most], the owner's memory */
    uint32_t n, most;
    bool     full; /* there was no room for one; sticks */
    uint32_t heads[FRAME_HEADS];
} frames;

void frames_init(frames *s, frame *memory, uint32_t most); /* with the bottom; most >= 1 */
/* The frame of these parts; FRAME_NONE: too deep, or no room, which `full` tells. */
uint32_t frames_push(frames *s, uint32_t back, uint64_t data, uint32_t below);
/* Drops all but the first n >= 1. */
void frames_cut(frames *s, uint32_t n);
/* `to` has as much memory as `from`. */
void frames_copy(frames *to, const frames *from);

#endif
