/* cli/notify.h - telling the service manager how the program is (sd_notify(3)'s protocol). */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

/* Sends "READY=1" or the like to the datagram socket that NOTIFY_SOCKET names; nothing without one. */
void notify(const char *state);

#endif
