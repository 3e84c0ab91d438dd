// Licences in installed products, for C++17: a wrapper of licensing.h.
//
//   licensing::Options options;
//   options.base_url = "https://licensing.example.com";
//   options.app_id = "app_01kahz5k00e000000000000001";
//   options.root_keys = {"lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8"};
//   options.licence_key = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF";
//   options.fingerprint = licensing::machine_fingerprint(options.app_id);
//   options.host = "build-7.example.com";
//   options.product_version = "4.2.0";
//   options.store_file = "/var/lib/acme/licence.json";
//   licensing::Client licence(options);
//   licence.activate(); // at each start
//   if (licence.has_feature("export_pdf")) enable_export();
#ifndef LICENSING_HPP
#define LICENSING_HPP

#include "licensing.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace licensing {

enum class Status {
    starting = LICENSING_STARTING,
    licensed = LICENSING_LICENSED,
    grace = LICENSING_GRACE,
    lapsed = LICENSING_LAPSED,
    refused = LICENSING_REFUSED,
    unlicensed = LICENSING_UNLICENSED,
};

/// The most recent problem, for a log.
struct Problem {
    std::string operation, code, detail, at;
};

/// Everything that a product may need to know about its licence, at one moment: see `licensing_state`.
struct State {
    Status status = Status::starting;
    bool usable = false;
    bool offline = false;
    bool clock_turned_back = false;
    std::optional<std::int64_t> seats;
    std::optional<std::string> reason, licence_id, activation_id, plan_id, licence_status, updates_until, expires_at, refresh_after;
    std::string revocations = "unknown";
    std::optional<Problem> problem;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

/// An HTTP request: see `licensing_request`.
struct Request {
    std::string method, url;
    Headers headers;
    std::string body;
    std::chrono::milliseconds timeout;
};

/// An HTTP answer.
struct Response {
    int status = 0;
    Headers headers;
    std::string body;
};

/// The options of a client: see `licensing_options`.
struct Options {
    std::string base_url, app_id;
    std::vector<std::string> root_keys;
    std::optional<std::string> licence_key;
    std::string fingerprint, host, product_version;
    std::optional<std::string> store_file;
    std::chrono::milliseconds timeout{5000};
    bool background = true;
    /// The local clock in milliseconds since 1970 UTC.
    std::function<std::int64_t()> clock;
    /// Sends a request, without following redirects. It throws if there is no answer.
    std::function<Response(const Request &)> send;
};

/// A fingerprint or a webhook could not be used.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace detail {

inline std::optional<std::string> text(const char *text) { return text ? std::optional<std::string>(text) : std::nullopt; }

/// Takes over a text of the library.
inline std::optional<std::string> taken(char *text) {
    std::unique_ptr<char, void (*)(char *)> owned(text, licensing_string_free);
    return detail::text(text);
}

inline const char *pointer(const std::optional<std::string> &text) { return text ? text->c_str() : nullptr; }

/// The texts, then a null pointer.
inline std::vector<const char *> pointers(const std::vector<std::string> &texts) {
    std::vector<const char *> all;
    for (const auto &text : texts) all.push_back(text.c_str());
    all.push_back(nullptr);
    return all;
}

/// Names and values in turn, then a null pointer.
inline std::vector<const char *> pointers(const Headers &headers) {
    std::vector<const char *> all;
    for (const auto &[name, value] : headers) {
        all.push_back(name.c_str());
        all.push_back(value.c_str());
    }
    all.push_back(nullptr);
    return all;
}

inline State state(const licensing_state &from) {
    State state;
    state.status = static_cast<Status>(from.status);
    state.usable = from.usable;
    state.offline = from.offline;
    state.clock_turned_back = from.clock_turned_back;
    if (from.has_seats) state.seats = from.seats;
    state.reason = text(from.reason);
    state.licence_id = text(from.licence_id);
    state.activation_id = text(from.activation_id);
    state.plan_id = text(from.plan_id);
    state.licence_status = text(from.licence_status);
    state.updates_until = text(from.updates_until);
    state.expires_at = text(from.expires_at);
    state.refresh_after = text(from.refresh_after);
    state.revocations = text(from.revocations).value_or("unknown");
    if (from.problem_code) {
        state.problem = Problem{text(from.problem_operation).value_or(""), from.problem_code,
                                text(from.problem_detail).value_or(""), text(from.problem_at).value_or("")};
    }
    return state;
}

/// Takes over a state of the library.
inline State taken(licensing_state *from) {
    std::unique_ptr<licensing_state, void (*)(licensing_state *)> owned(from, licensing_state_free);
    return from ? state(*from) : State{};
}

/// The functions of the product. No exception crosses the C interface.
struct Functions {
    std::function<std::int64_t()> clock;
    std::function<Response(const Request &)> send;
};

inline std::int64_t clock(void *user) noexcept {
    try {
        return static_cast<Functions *>(user)->clock();
    } catch (...) {
        return INT64_MAX; // no time: the library uses the clock of the system
    }
}

inline bool send(void *user, const licensing_request *from, licensing_response *to) noexcept {
    try {
        Request request{from->method, from->url, {}, text(from->body).value_or(""), std::chrono::milliseconds(from->timeout_ms)};
        for (auto header = from->headers; *header; header += 2) request.headers.emplace_back(header[0], header[1]);
        const Response response = static_cast<Functions *>(user)->send(request);
        const auto status = static_cast<std::uint16_t>(response.status);
        licensing_response_set(to, status, pointers(response.headers).data(), response.body.data(), response.body.size());
        return true;
    } catch (...) {
        return false;
    }
}

template <typename T> void free_user(void *user) noexcept { delete static_cast<T *>(user); }

using Listener = std::function<void(const State &)>;

inline void listen(void *user, const licensing_state *changed) noexcept {
    try {
        (*static_cast<Listener *>(user))(state(*changed));
    } catch (...) {
        // An error of a listener does not affect the licence.
    }
}

} // namespace detail

/// The licence of one installation of a product. A call returns the state after it, within about the timeout. All functions can be
/// called from several threads.
class Client {
public:
    /// Throws std::invalid_argument if a root key is missing or malformed.
    explicit Client(const Options &options) : client_(create(options), licensing_free) {}

    State state() const { return detail::taken(licensing_state_of(client_.get())); }
    State ready() { return detail::taken(licensing_ready(client_.get())); }
    State activate() { return detail::taken(licensing_activate(client_.get())); }
    State start_trial(const std::string &plan_code) {
        return detail::taken(licensing_start_trial(client_.get(), plan_code.c_str()));
    }
    State activate_offline(const std::string &file) {
        return detail::taken(licensing_activate_offline(client_.get(), file.c_str()));
    }
    State refresh() { return detail::taken(licensing_refresh(client_.get())); }
    State check() { return detail::taken(licensing_check(client_.get())); }
    State migrate(const std::string &legacy_key) { return detail::taken(licensing_migrate(client_.get(), legacy_key.c_str())); }
    State deactivate() { return detail::taken(licensing_deactivate(client_.get())); }
    State release() { return detail::taken(licensing_release(client_.get())); }
    State call_home() { return detail::taken(licensing_call_home(client_.get())); }

    bool has_feature(const std::string &key) const { return licensing_has_feature(client_.get(), key.c_str()); }
    std::int64_t limit(const std::string &key) const { return licensing_limit(client_.get(), key.c_str()); }
    bool covers(const std::string &released_at) const { return licensing_covers(client_.get(), released_at.c_str()); }
    std::string create_offline_request() { return detail::taken(licensing_create_offline_request(client_.get())).value_or(""); }
    std::optional<std::string> licence_key() const { return detail::taken(licensing_licence_key(client_.get())); }

    /// Calls a listener after each change of the state, on the client's thread. Returns a number for remove_listener.
    std::uint64_t on_change(std::function<void(const State &)> listener) {
        auto user = std::make_unique<detail::Listener>(std::move(listener));
        return licensing_on_change(client_.get(), detail::listen, user.release(), detail::free_user<detail::Listener>);
    }
    void remove_listener(std::uint64_t listener) { licensing_remove_listener(client_.get(), listener); }

    /// Ends the background work and the client's thread. The destructor does it too.
    void close() { licensing_close(client_.get()); }

private:
    static licensing_client *create(const Options &from) {
        const auto root_keys = detail::pointers(from.root_keys);
        licensing_options options{};
        options.base_url = from.base_url.c_str();
        options.app_id = from.app_id.c_str();
        options.root_keys = root_keys.data();
        options.licence_key = detail::pointer(from.licence_key);
        options.fingerprint = from.fingerprint.c_str();
        options.host = from.host.c_str();
        options.product_version = from.product_version.c_str();
        options.store_file = detail::pointer(from.store_file);
        options.timeout_ms = static_cast<std::uint32_t>(from.timeout.count());
        options.no_background = !from.background;
        options.clock = from.clock ? detail::clock : nullptr;
        options.send = from.send ? detail::send : nullptr;
        options.user = new detail::Functions{from.clock, from.send};
        options.free_user = detail::free_user<detail::Functions>;
        char *error = nullptr;
        licensing_client *client = licensing_new(&options, &error);
        const auto why = detail::taken(error);
        if (!client) throw std::invalid_argument(why.value_or("the client cannot be created"));
        return client;
    }

    std::unique_ptr<licensing_client, void (*)(licensing_client *)> client_;
};

/// A fingerprint of this machine: see `licensing_machine_fingerprint`. Throws Error if `file` can be neither read nor written.
inline std::string machine_fingerprint(const std::string &app_id, const std::optional<std::string> &file = std::nullopt) {
    char *error = nullptr;
    const auto fingerprint = detail::taken(licensing_machine_fingerprint(app_id.c_str(), detail::pointer(file), &error));
    const auto why = detail::taken(error);
    if (!fingerprint) throw Error(why.value_or("there is no fingerprint"));
    return *fingerprint;
}

/// Verifies a webhook delivery, and returns the JSON of the event: see `licensing_verify_webhook`. Throws Error with the reason.
inline std::string verify_webhook(const std::string &raw_body, const Headers &headers, const std::vector<std::string> &secrets,
                                  std::chrono::seconds tolerance = std::chrono::seconds(300), std::int64_t now_ms = 0) {
    char *event = nullptr;
    const char *reason =
        licensing_verify_webhook(raw_body.data(), raw_body.size(), detail::pointers(headers).data(),
                                 detail::pointers(secrets).data(), static_cast<double>(tolerance.count()), now_ms, &event);
    auto verified = detail::taken(event);
    if (reason) throw Error(reason);
    return std::move(verified).value_or("");
}

} // namespace licensing

#endif
