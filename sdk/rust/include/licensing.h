/*
 * Licences in installed products: the C interface of the Rust SDK. Link with liblicensing.a or liblicensing.so.
 *
 *   licensing_options options = {0};
 *   options.base_url = "https://licensing.example.com";
 *   options.app_id = "app_01kahz5k00e000000000000001";
 *   options.root_keys = (const char *const[]){"lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8", NULL};
 *   options.licence_key = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF";
 *   options.fingerprint = fingerprint; // licensing_machine_fingerprint
 *   options.host = "build-7.example.com";
 *   options.product_version = "4.2.0";
 *   options.store_file = "/var/lib/acme/licence.json";
 *   licensing_client *licence = licensing_new(&options, NULL);
 *   licensing_state_free(licensing_activate(licence)); // at each start
 *   if (licensing_has_feature(licence, "export_pdf")) enable_export();
 *   licensing_free(licence);
 *
 * Texts are UTF-8 and end with NUL.
 *
 * Who frees what: the library copies what it is given, so the product may free it after the call. What a function returns
 * belongs to the product, which frees it: a client with licensing_free, a state with licensing_state_free, a `char *` with
 * licensing_string_free. A `const char *` is not freed: it belongs to the state or the library that it comes from. A text that is
 * returned through a pointer (`error`, `event`) is always set, to NULL if there is none. Each function that frees accepts NULL.
 *
 * All functions can be called from several threads at once. If a thread frees a client, calls that wait in other threads return
 * at once; no call may begin after that. No call blocks for longer than about its timeout. No error leaves a function other than
 * as its result: a null pointer, false or 0.
 */
#ifndef LICENSING_H
#define LICENSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The licence of one installation of a product. */
typedef struct licensing_client licensing_client;

/* An HTTP answer that `send` fills in. */
typedef struct licensing_response licensing_response;

/* An HTTP request. It is valid until `send` returns. */
typedef struct licensing_request {
    const char *method;         /* GET, POST or DELETE */
    const char *url;            /* the whole address */
    const char *const *headers; /* name, value, name, value, …, NULL */
    const char *body;           /* JSON, or NULL */
    uint32_t timeout_ms;        /* how long the client waits for the whole answer */
} licensing_request;

/* Fields that are 0 or NULL have the default. */
typedef struct licensing_options {
    const char *base_url; /* address of the licensing service: https://licensing.example.com */
    const char *app_id;   /* the application's id, app_… */
    /* The application's root key, or several while one is being replaced, then NULL. Compile it into the product. A signing key
       is trusted only if one of these has signed it. "unpinned" alone trusts every key. */
    const char *const *root_keys;
    const char *licence_key;     /* the customer's licence key; NULL to use the stored one */
    const char *fingerprint;     /* identifies this machine: licensing_machine_fingerprint */
    const char *host;            /* the name of the machine, or the domain that the product serves */
    const char *product_version; /* the product's version */
    const char *store_file;      /* keeps the licence over restarts; NULL: in memory, which keeps nothing */
    uint32_t timeout_ms;         /* of each call; default: 5000 */
    bool no_background;          /* whether the client does not check and refresh by itself between calls */
    /* The local clock in milliseconds since 1970 UTC; default: that of the system. It must not call the client. */
    int64_t (*clock)(void *user);
    /* Sends a request, without following redirects: with an HTTP library of the product, or in tests. It fills in the answer with
       licensing_response_set, or returns false if there was none. */
    bool (*send)(void *user, const licensing_request *request, licensing_response *response);
    /* `clock` and `send` get it, from any thread; `free_user`, if given, is called when they will not be called any more. */
    void *user;
    void (*free_user)(void *user);
} licensing_options;

typedef enum licensing_status {
    LICENSING_STARTING = 0,  /* the store has not been read yet; nothing is granted */
    LICENSING_LICENSED = 1,  /* the token is valid */
    LICENSING_GRACE = 2,     /* it is still valid, but is not being renewed; all is granted until expires_at */
    LICENSING_LAPSED = 3,    /* the token has ended, and the service could not be asked for a new one */
    LICENSING_REFUSED = 4,   /* the service refused, or the licence is revoked */
    LICENSING_UNLICENSED = 5 /* there is no token */
} licensing_status;

/* Everything that a product may need to know about its licence, at one moment. Texts can be NULL, but for `revocations`. Times are
   ISO 8601 UTC. */
typedef struct licensing_state {
    int32_t status;         /* licensing_status */
    bool usable;            /* whether features and limits are granted now: licensed or grace */
    bool offline;           /* whether the token came in a file */
    bool clock_turned_back; /* the local clock was turned back, and no token has been issued since */
    bool has_seats;
    int64_t seats;      /* the number of seats the product should enforce, if has_seats */
    const char *reason; /* why the product is not licensed */
    const char *licence_id;
    const char *activation_id;
    const char *plan_id;
    const char *licence_status;    /* when the service signed the token: active or downgraded */
    const char *updates_until;     /* the product may be updated to releases until this time; NULL: to all */
    const char *expires_at;        /* the token's end */
    const char *refresh_after;     /* half of the token's life, when renewal begins */
    const char *revocations;       /* the revocation list: current, stale or unknown */
    const char *problem_operation; /* the most recent problem, for a log: NULL if there is none */
    const char *problem_code;
    const char *problem_detail;
    const char *problem_at;
} licensing_state;

/* Creates a client, which does nothing before the first call. NULL if a root key is missing or malformed; then, if `error` is
   not NULL, it is set to a text that the product frees. */
licensing_client *licensing_new(const licensing_options *options, char **error);

/* Ends the background work and the client's thread: a request that is running is not waited for. licensing_has_feature and
   licensing_limit still use the current token; other calls return the state without the network. */
void licensing_close(const licensing_client *client);

/* Closes and frees a client. */
void licensing_free(licensing_client *client);

void licensing_state_free(licensing_state *state);
void licensing_string_free(char *text);

/* The current state, without a call. */
licensing_state *licensing_state_of(const licensing_client *client);

/* Reads the store and verifies its content, without the network. */
licensing_state *licensing_ready(const licensing_client *client);

/* Activates the product: call it at every start. It needs no network if the store has a valid token. */
licensing_state *licensing_activate(const licensing_client *client);

/* Starts a trial, or continues it: instead of licensing_activate in a product that has no licence key. `plan_code` is the code of
   a plan with trial_days. */
licensing_state *licensing_start_trial(const licensing_client *client, const char *plan_code);

/* Reads the text of a licence file from the vendor, without the network. */
licensing_state *licensing_activate_offline(const licensing_client *client, const char *file);

/* Renews the token now. */
licensing_state *licensing_refresh(const licensing_client *client);

/* Checks the revocation list now. */
licensing_state *licensing_check(const licensing_client *client);

/* Exchanges a key of the vendor's former system for a licence key, once, and activates that. */
licensing_state *licensing_migrate(const licensing_client *client, const char *legacy_key);

/* Frees the activation of this machine, so that the licence can be used on another one. */
licensing_state *licensing_deactivate(const licensing_client *client);

/* Ends the lease of a floating licence, so that another installation can use it at once. */
licensing_state *licensing_release(const licensing_client *client);

/* Reports to the vendor that this installation is in use. */
licensing_state *licensing_call_home(const licensing_client *client);

/* Whether a feature is granted now. Returns at once. */
bool licensing_has_feature(const licensing_client *client, const char *key);

/* The current value of a limit; 0 if nothing is granted. Returns at once. */
int64_t licensing_limit(const licensing_client *client, const char *key);

/* Whether the licence includes updates to a release of this time: ISO 8601, in UTC if it names no zone; true for any other text. */
bool licensing_covers(const licensing_client *client, const char *released_at);

/* A request for a licence file, for a machine without a network: JSON. The product frees it. */
char *licensing_create_offline_request(const licensing_client *client);

/* The licence key in use, or NULL. The product frees it. */
char *licensing_licence_key(const licensing_client *client);

/* Calls `listener` after each change of the state, on the client's thread, with a state that is valid until it returns. A call of
   the client from a listener is done after the listener. `free_user`, if given, is called when the listener will not be called
   any more. Returns a number for licensing_remove_listener. */
uint64_t licensing_on_change(const licensing_client *client, void (*listener)(void *user, const licensing_state *state), void *user,
                             void (*free_user)(void *user));
void licensing_remove_listener(const licensing_client *client, uint64_t listener);

/* Sets the answer of a request. `headers` is name, value, name, value, …, NULL; it can be NULL. */
void licensing_response_set(licensing_response *response, uint16_t status, const char *const *headers, const void *body,
                            size_t body_length);

/* A fingerprint of this machine: 64 hexadecimal characters, which the product frees. With `file` it is made from a random id in that
   file: for containers. NULL if the file can be neither read nor written; then `error` is set as by licensing_new. */
char *licensing_machine_fingerprint(const char *app_id, const char *file, char **error);

/* Verifies a webhook delivery with its raw body, its headers (name, value, …, NULL) and the secrets of the endpoint (several while one
   is being rotated, then NULL). The tolerance is 300 s if it is 0; the time is that of the system if `now_ms` is 0. Returns NULL if
   the delivery is authentic, and sets `event`, if that is not NULL, to the JSON of the event, which the product frees. Else returns
   the reason: no_secret, malformed_header, signature_mismatch, timestamp_outside_tolerance or malformed_body. */
const char *licensing_verify_webhook(const void *body, size_t body_length, const char *const *headers, const char *const *secrets,
                                     double tolerance_seconds, int64_t now_ms, char **event);

#ifdef __cplusplus
}
#endif

#endif
