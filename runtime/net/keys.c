/* Key files and files of peers, both text:
 *
 *     phobos-secret-key 1          NAME KEY           a line a peer; a line that begins with '#', which keys may hold, is a comment
 *     name NAME
 *     public KEY
 *     secret KEY
 *
 * Keys are in Z85, 40 characters. */
#define _GNU_SOURCE
#include "runtime/net/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define MAGIC "phobos-secret-key 1"
#define MAX_BYTES (1 << 20)

static bool is_name(const char *text) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    size_t length = strlen(text);
    return length > 0 && length < KEY_NAME && strspn(text, allowed) == length;
}

static bool is_key(const char *text) {
    uint8_t bytes[32];
    bool valid = strlen(text) == KEY_TEXT - 1 && zmq_z85_decode(bytes, text) != NULL;
    explicit_bzero(bytes, sizeof bytes);
    return valid;
}

/* ---- making ---- */

static bool write_new(const char *path, mode_t mode, const char *text, Error *error) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_errno(error, "cannot make '%s'", path);
    size_t length = strlen(text);
    bool written = write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    if (!written)
        error_errno(error, "cannot write '%s'", path);
    close(fd);
    if (!written)
        unlink(path);
    return written;
}

bool keys_generate(const char *path, const char *name, Error *error) {
    if (!is_name(name))
        return error_set(error, "'%s' is no name for a key: 1 to %d letters, digits, '.', '_', ':' and '-'", name, KEY_NAME - 1);
    char public_key[KEY_TEXT], secret_key[KEY_TEXT], secret_text[256];
    if (zmq_curve_keypair(public_key, secret_key) != 0)
        return error_set(error, "cannot make keys: %s", zmq_strerror(zmq_errno()));
    snprintf(secret_text, sizeof secret_text, MAGIC "\nname %s\npublic %s\nsecret %s\n", name, public_key, secret_key);
    char *public_path = format_text("%s.pub", path), *public_text = format_text("%s %s\n", name, public_key);
    bool made = write_new(path, 0600, secret_text, error);
    if (made && !write_new(public_path, 0644, public_text, error)) {
        unlink(path);
        made = false;
    }
    explicit_bzero(secret_key, sizeof secret_key);
    explicit_bzero(secret_text, sizeof secret_text);
    free(public_path);
    free(public_text);
    return made;
}

/* ---- reading ---- */

/* The whole of a regular file, for wipe_text. A secret must be its owner's alone. */
static char *read_text(const char *path, bool secret, size_t *size, Error *error) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        error_errno(error, "cannot open '%s'", path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *text = NULL;
    if (!S_ISREG(status.st_mode))
        error_set(error, "'%s' is not a regular file", path);
    else if (status.st_size > MAX_BYTES)
        error_set(error, "'%s' has %lld bytes, more than keys take", path, (long long)status.st_size);
    else if (secret && (status.st_mode & 077))
        error_set(error, "others than its owner may read the key '%s' (mode %03o): chmod 600 it, and make new keys if they did", path,
            status.st_mode & 0777u);
    else
        text = new_zeroed((size_t)status.st_size + 1, 1);
    *size = text ? (size_t)status.st_size : 0;
    if (text && read(fd, text, *size) != (ssize_t)*size) {
        error_errno(error, "cannot read '%s'", path);
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

static void wipe_text(char *text, size_t size) {
    if (text)
        explicit_bzero(text, size);
    free(text);
}

/* Cuts the line at *text into at most two words; false at the end. What follows a second word is left in `rest`. */
static bool next_line(char **text, char *words[2], char **rest) {
    if (!**text)
        return false;
    char *line = *text;
    size_t length = strcspn(line, "\n");
    *text = line + length + (line[length] == '\n');
    line[length] = '\0';
    line[strcspn(line, "\r")] = '\0';
    char *at = line + strspn(line, " \t");
    if (*at == '#')
        *at = '\0';
    for (int w = 0; w < 2; w++) {
        at += strspn(at, " \t");
        words[w] = at;
        at += strcspn(at, " \t");
        if (*at)
            *at++ = '\0';
    }
    *rest = at + strspn(at, " \t");
    return true;
}

static bool read_key(Keys *keys, const char *path, char *text, Error *error) {
    char *words[2], *rest;
    size_t magic = strlen(MAGIC);
    if (strncmp(text, MAGIC, magic) != 0 || (text[magic] != '\n' && text[magic] != '\0'))
        return error_set(error, "'%s' is no key; --role=keygen --key=FILE makes one", path);
    text += strcspn(text, "\n");
    text += *text == '\n';
    while (next_line(&text, words, &rest)) {
        if (strcmp(words[0], "name") == 0 && is_name(words[1]))
            snprintf(keys->name, sizeof keys->name, "%s", words[1]);
        else if (strcmp(words[0], "public") == 0 && is_key(words[1]))
            memcpy(keys->public_key, words[1], KEY_TEXT);
        else if (strcmp(words[0], "secret") == 0 && is_key(words[1]))
            memcpy(keys->secret_key, words[1], KEY_TEXT);
        else if (*words[0])
            return error_set(error, "'%s' is damaged: a line is neither name, public key nor secret key", path);
    }
    char derived[KEY_TEXT];
    if (!*keys->name || !*keys->public_key || !*keys->secret_key || zmq_curve_public(derived, keys->secret_key) != 0 ||
        strcmp(derived, keys->public_key) != 0)
        return error_set(error, "'%s' is damaged: name, public key and secret key do not belong together", path);
    return true;
}

static bool add_peer(Keys *keys, const char *path, int line, const char *name, const char *key, Error *error) {
    if (!is_name(name) || !is_key(key))
        return error_set(error, "%s:%d: expected NAME KEY, the line in a .pub file", path, line);
    if (keys_of_name(keys, name))
        return error_set(error, "%s:%d: '%s' has a key already", path, line, name);
    if (keys_name_of(keys, key))
        return error_set(error, "%s:%d: '%s' and '%s' have one key", path, line, name, keys_name_of(keys, key));
    KeyPeer *peers = realloc(keys->peers, (size_t)(keys->peer_count + 1) * sizeof *peers);
    if (!peers)
        return error_set(error, "out of memory");
    keys->peers = peers;
    KeyPeer *peer = &peers[keys->peer_count++];
    snprintf(peer->name, sizeof peer->name, "%s", name);
    memcpy(peer->key, key, KEY_TEXT);
    return true;
}

static bool read_peers(Keys *keys, const char *path, char *text, Error *error) {
    char *words[2], *rest;
    for (int line = 1; next_line(&text, words, &rest); line++) {
        if (!*words[0])
            continue;
        if (*rest)
            return error_set(error, "%s:%d: expected NAME KEY, found more", path, line);
        if (!add_peer(keys, path, line, words[0], words[1], error))
            return false;
    }
    return keys->peer_count > 0 || error_set(error, "%s: nobody is named; each line is NAME KEY", path);
}

Keys *keys_load(const char *key_path, const char *peers_path, Error *error) {
    Keys *keys = new_zeroed(1, sizeof *keys);
    size_t key_size = 0, peers_size = 0;
    char *key_text = read_text(key_path, true, &key_size, error), *peers_text = NULL;
    bool fine = key_text && read_key(keys, key_path, key_text, error) && (peers_text = read_text(peers_path, false, &peers_size, error)) &&
                read_peers(keys, peers_path, peers_text, error);
    wipe_text(key_text, key_size);
    wipe_text(peers_text, peers_size);
    if (fine)
        return keys;
    keys_free(keys);
    return NULL;
}

void keys_free(Keys *keys) {
    if (!keys)
        return;
    free(keys->peers);
    explicit_bzero(keys, sizeof *keys);
    free(keys);
}

const char *keys_of_name(const Keys *keys, const char *name) {
    for (int i = 0; i < keys->peer_count; i++)
        if (strcmp(keys->peers[i].name, name) == 0)
            return keys->peers[i].key;
    return NULL;
}

const char *keys_name_of(const Keys *keys, const char *key) {
    for (int i = 0; i < keys->peer_count; i++)
        if (strcmp(keys->peers[i].key, key) == 0)
            return keys->peers[i].name;
    return NULL;
}

void keys_shield_process(void) {
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}
