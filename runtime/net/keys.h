/* Keys of CURVE: who a process is, and whom it lets in. */
#ifndef PHOBOS_KEYS_H
#define PHOBOS_KEYS_H

#include "runtime/runtime.h"

enum { KEY_TEXT = 41, KEY_NAME = 64 }; /* a key in Z85 and its NUL; a name and its NUL */

#define SCHED_NAME "sched" /* the scheduler's name in every file of peers */

typedef struct KeyPeer {
    char name[KEY_NAME], key[KEY_TEXT];
} KeyPeer;

/* What --key and --peers say. Owned by who loads it; the secret is wiped by keys_free. */
typedef struct Keys {
    char name[KEY_NAME], public_key[KEY_TEXT], secret_key[KEY_TEXT];
    KeyPeer *peers;
    int peer_count;
} Keys;

/* Makes a key pair for `name`: the secret in a new file `path`, readable by its owner alone, and a line for files of peers in `path`.pub. */
bool keys_generate(const char *path, const char *name, Error *error);
/* NULL where a file cannot be read or trusted: a secret that others may read is refused. */
Keys *keys_load(const char *key_path, const char *peers_path, Error *error);
void keys_free(Keys *keys); /* NULL is nothing */
const char *keys_of_name(const Keys *keys, const char *name); /* Z85; NULL: not a peer */
const char *keys_name_of(const Keys *keys, const char *key);  /* NULL: a stranger's */
/* No core dumps, and no other process of the user reads this one's memory. */
void keys_shield_process(void);

#endif
