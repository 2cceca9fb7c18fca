/* cli/state_path.h - where the command line keeps what it knows from one run to the next. */
#ifndef CLI_STATE_PATH_H
#define CLI_STATE_PATH_H

/* $XDG_STATE_HOME/weir/`name` (without it ~/.local/state/weir), its folders made for
 * their owner alone; mem_free.  A folder that cannot be made shows when the file is
 * written.  NULL: neither variable says where, or out of memory. */
char *state_path(const char *name);

#endif
