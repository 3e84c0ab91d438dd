/* The C interface, with answers that the test gives. Run by tests/c_interface.rs, also under valgrind. */
#include "licensing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* The answers of the service, from the vectors: token, jwks, list. */
static const char *token_answer, *jwks_answer, *list_answer;
static atomic_int requests, freed, heard;

static void sleep_for_a_moment(void) { thrd_sleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static int64_t clock_of_the_test(void *user) {
    (void)user;
    return 1795255200000; /* 2026-11-21T10:00:00Z */
}

static bool send_to_nobody(void *user, const licensing_request *request, licensing_response *response) {
    (void)user, (void)request, (void)response;
    return false;
}

static bool send_of_the_test(void *user, const licensing_request *request, licensing_response *response) {
    CHECK(strcmp(user, "user") == 0);
    CHECK(request->timeout_ms > 0 && request->headers[0] != NULL);
    const char *body = strstr(request->url, "jwks.json")     ? jwks_answer
                       : strstr(request->url, "revocations") ? list_answer
                                                             : token_answer;
    CHECK((request->body != NULL) == (strcmp(request->method, "POST") == 0));
    const char *const headers[] = {"content-type", "application/json", "etag", "\"1\"", NULL};
    licensing_response_set(response, 200, headers, body, strlen(body));
    atomic_fetch_add(&requests, 1);
    return true;
}

static void free_user(void *user) {
    CHECK(strcmp(user, "user") == 0);
    atomic_fetch_add(&freed, 1);
}

static void listen(void *user, const licensing_state *state) {
    CHECK(strcmp(user, "user") == 0);
    CHECK(state->revocations != NULL);
    atomic_fetch_add(&heard, 1);
}

static const char *const unpinned[] = {"unpinned", NULL};

static licensing_options options_of_the_test(void) {
    licensing_options options = {0};
    options.base_url = "https://licensing.example.com";
    options.app_id = "app_01kahz5k00e000000000000001";
    options.root_keys = unpinned;
    options.licence_key = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF";
    options.fingerprint = "machine-1";
    options.host = "app.example.com";
    options.product_version = "4.2.0";
    options.clock = clock_of_the_test;
    options.send = send_of_the_test;
    options.user = "user";
    options.free_user = free_user;
    options.no_background = true;
    return options;
}

static void *ask(void *client) {
    for (int times = 0; times < 200; times++) {
        licensing_has_feature(client, "export_pdf");
        licensing_state_free(licensing_state_of(client));
        if (times % 50 == 0) licensing_state_free(licensing_refresh(client));
    }
    return NULL;
}

static void test_client(void) {
    licensing_options options = options_of_the_test();
    char unset[] = "", *error = unset;
    licensing_client *client = licensing_new(&options, &error);
    CHECK(client != NULL && error == NULL);
    uint64_t listener = licensing_on_change(client, listen, "user", free_user);
    CHECK(!licensing_has_feature(client, "export_pdf"));

    licensing_state *state = licensing_activate(client);
    CHECK(state->status == LICENSING_LICENSED && state->usable && state->reason == NULL && state->problem_code == NULL);
    CHECK(strcmp(state->licence_id, "lic_01kahz5k00e000000000000002") == 0 && strcmp(state->revocations, "unknown") == 0);
    CHECK(strcmp(state->expires_at, "2026-11-22T10:00:00.000Z") == 0);
    licensing_state_free(state);
    CHECK(licensing_has_feature(client, "export_pdf") && !licensing_has_feature(client, "no_such_key"));
    CHECK(licensing_limit(client, "max_projects") == 25 && licensing_limit(client, "overdraft") == -5);
    CHECK(licensing_covers(client, "2026-11-01") && atomic_load(&heard) == 2);
    char *key = licensing_licence_key(client);
    CHECK(strcmp(key, options.licence_key) == 0);
    licensing_string_free(key);
    char *request = licensing_create_offline_request(client);
    CHECK(strstr(request, "\"fingerprint\":\"machine-1\"") != NULL);
    licensing_string_free(request);

    pthread_t threads[4];
    for (int at = 0; at < 4; at++) CHECK(pthread_create(&threads[at], NULL, ask, client) == 0);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);

    state = licensing_activate_offline(client, "no file \xff");
    CHECK(strcmp(state->problem_operation, "activate_offline") == 0 && strcmp(state->problem_code, "root_key_required") == 0);
    licensing_state_free(state);
    licensing_remove_listener(client, listener);
    licensing_close(client);
    state = licensing_check(client);
    CHECK(state->usable && licensing_has_feature(client, "export_pdf"));
    licensing_state_free(state);
    licensing_free(client);
    // A short thread for the store may end after the client.
    for (int wait = 0; wait < 5000 && atomic_load(&freed) < 2; wait++) sleep_for_a_moment();
    CHECK(atomic_load(&freed) == 2 && atomic_load(&requests) >= 2);
}

static void test_errors(void) {
    licensing_options options = options_of_the_test();
    const char *const none[] = {NULL}, *const malformed[] = {"lrk_", NULL};
    const char *const *wrong[] = {NULL, none, malformed};
    for (int at = 0; at < 3; at++) {
        options.root_keys = wrong[at];
        char *error = NULL;
        CHECK(licensing_new(&options, &error) == NULL && strstr(error, "root_key") != NULL);
        licensing_string_free(error);
        CHECK(licensing_new(&options, NULL) == NULL);
    }
    options = options_of_the_test();
    options.send = send_to_nobody;
    options.timeout_ms = 200;
    licensing_client *client = licensing_new(&options, NULL);
    licensing_state *state = licensing_activate(client);
    CHECK(state->status == LICENSING_UNLICENSED && strcmp(state->reason, "unreachable") == 0);
    licensing_state_free(state);
    licensing_free(client);
    licensing_free(NULL);
    licensing_state_free(NULL);
    licensing_string_free(NULL);
    CHECK(licensing_activate(NULL) == NULL && !licensing_has_feature(NULL, NULL) && licensing_limit(NULL, "a") == 0);
}

static atomic_bool is_waiting, may_end;

static bool send_that_waits(void *user, const licensing_request *request, licensing_response *response) {
    atomic_store(&is_waiting, true);
    while (!atomic_load(&may_end)) sleep_for_a_moment();
    return send_to_nobody(user, request, response);
}

static void *activate(void *client) {
    licensing_state *state = licensing_activate(client);
    CHECK(state != NULL && !state->usable);
    licensing_state_free(state);
    return NULL;
}

static void test_free_while_a_call_waits(void) {
    licensing_options options = options_of_the_test();
    options.send = send_that_waits;
    options.timeout_ms = 3600000;
    const int freed_before = atomic_load(&freed);
    licensing_client *client = licensing_new(&options, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, activate, client) == 0);
    while (!atomic_load(&is_waiting)) sleep_for_a_moment();
    licensing_free(client);
    pthread_join(thread, NULL);
    atomic_store(&may_end, true);
    while (atomic_load(&freed) == freed_before) sleep_for_a_moment();
}

static void test_machine_and_webhooks(const char *folder) {
    char *one = licensing_machine_fingerprint("app_1", NULL, NULL);
    CHECK(one != NULL && strlen(one) == 64);
    licensing_string_free(one);
    char path[4096], *error = NULL;
    snprintf(path, sizeof path, "%s/id", folder);
    one = licensing_machine_fingerprint("app_1", path, &error);
    char *other = licensing_machine_fingerprint("app_1", path, &error);
    CHECK(strcmp(one, other) == 0 && error == NULL);
    licensing_string_free(one);
    licensing_string_free(other);
    CHECK(licensing_machine_fingerprint("app_1", folder, &error) == NULL && error != NULL);
    licensing_string_free(error);

    const char *body = "{\"id\":\"evt_1\",\"type\":\"webhook.test\",\"data\":{\"object\":{\"ping\":true}}}";
    const char *const headers[] = {"Webhook-Signature",
                                   "t=1795255200,v1=1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b", NULL};
    const char *const secrets[] = {"whsec_other", "whsec_test", NULL}, *const none[] = {NULL};
    char unset[] = "", *event = NULL, *no_event = unset;
    CHECK(licensing_verify_webhook(body, strlen(body), headers, secrets, 0, 1795255200000, &event) == NULL);
    CHECK(strcmp(event, body) == 0);
    licensing_string_free(event);
    CHECK(licensing_verify_webhook(body, strlen(body), headers, secrets, 0, 1795255200000, NULL) == NULL);
    CHECK(strcmp(licensing_verify_webhook(body, 3, headers, secrets, 0, 1795255200000, &no_event), "signature_mismatch") == 0);
    CHECK(no_event == NULL);
    CHECK(strcmp(licensing_verify_webhook(NULL, 0, NULL, none, 0, 0, NULL), "no_secret") == 0);
}

int main(int count, char **given) {
    CHECK(count == 5);
    token_answer = given[1], jwks_answer = given[2], list_answer = given[3];
    test_client();
    test_errors();
    test_free_while_a_call_waits();
    test_machine_and_webhooks(given[4]);
    puts("the C interface is right");
    return 0;
}
