// The driver of the SDKs' common suite (`sdk/suite`) for C++: reads calls as JSON lines, and writes their outcomes.
#include "licensing.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

/// A value of JSON: a text, a list or an object. Other values are kept as they are written.
struct Json {
    std::string written;
    std::optional<std::string> text;
    std::vector<Json> list;
    std::map<std::string, Json> fields;

    const Json &operator[](const std::string &name) const {
        static const Json absent{"null", {}, {}, {}};
        const auto found = fields.find(name);
        return found == fields.end() ? absent : found->second;
    }
    bool is_null() const { return written == "null"; }
    /// The texts of a list, or the only text.
    std::vector<std::string> texts() const {
        std::vector<std::string> all;
        for (const auto &each : list) all.push_back(each.text.value_or(""));
        if (text) all.push_back(*text);
        return all;
    }
};

class Reader {
public:
    explicit Reader(const std::string &from) : from_(from) {}

    Json value() {
        Json found;
        const char first = next();
        const auto start = at_;
        if (first == '"') {
            found.text = quoted();
        } else if (first == '[') {
            each(']', [&] { found.list.push_back(value()); });
        } else if (first == '{') {
            each('}', [&] {
                const auto name = quoted();
                next();
                at_++; // the colon
                found.fields.emplace(name, value());
            });
        } else {
            at_ = from_.find_first_of(",]} \n", at_);
        }
        found.written = from_.substr(start, at_ - start);
        return found;
    }

private:
    char next() {
        at_ = from_.find_first_not_of(" \t\r\n", at_);
        return from_.at(at_);
    }

    template <typename Read> void each(char end, Read read) {
        at_++;
        while (next() != end) {
            read();
            if (next() == ',') at_++;
        }
        at_++;
    }

    std::string quoted() {
        next();
        std::string content;
        for (at_++; from_.at(at_) != '"'; at_++) {
            if (from_[at_] != '\\') {
                content += from_[at_];
                continue;
            }
            const char escaped = from_.at(++at_);
            const auto known = std::string("bfnrt").find(escaped);
            if (escaped == 'u') {
                append(content, unit());
            } else {
                content += known == std::string::npos ? escaped : "\b\f\n\r\t"[known];
            }
        }
        at_++;
        return content;
    }

    /// The code point of an escape, which may be a pair of surrogates.
    unsigned unit() {
        const auto four = [&] { return static_cast<unsigned>(std::stoul(from_.substr(at_ + 1, 4), nullptr, 16)); };
        const unsigned high = four();
        at_ += 4;
        if (high < 0xD800 || high > 0xDBFF || from_.compare(at_ + 1, 2, "\\u") != 0) return high;
        at_ += 2;
        const unsigned low = four();
        at_ += 4;
        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }

    static void append(std::string &to, unsigned point) {
        const auto tail = [&](int shift) { to += static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
        if (point < 0x80) {
            to += static_cast<char>(point);
        } else if (point < 0x800) {
            to += static_cast<char>(0xC0 | (point >> 6));
            tail(0);
        } else if (point < 0x10000) {
            to += static_cast<char>(0xE0 | (point >> 12));
            tail(6);
            tail(0);
        } else {
            to += static_cast<char>(0xF0 | (point >> 18));
            tail(12);
            tail(6);
            tail(0);
        }
    }

    const std::string &from_;
    std::size_t at_ = 0;
};

static std::string quoted(const std::string &text) {
    std::string all = "\"";
    for (const char c : text) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        const bool is_plain = static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
        all += is_plain ? std::string(1, c) : escape;
    }
    return all + '"';
}

static std::string quoted_or_null(const std::optional<std::string> &text) { return text ? quoted(*text) : "null"; }

static const char *written(bool value) { return value ? "true" : "false"; }

static std::string decoded(const std::string &base64) {
    static const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0;
    int count = 0;
    for (const char c : base64) {
        if (c == '=') break;
        bits = (bits << 6) | static_cast<unsigned>(alphabet.find(c));
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>((bits >> count) & 0xFF);
    }
    return bytes;
}

/// The milliseconds since 1970 of a time like `2026-11-21T10:00:00.000Z`.
static std::int64_t milliseconds(const std::string &text) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0;
    std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d.%dZ", &year, &month, &day, &hour, &minute, &second, &ms);
    const std::int64_t y = month > 2 ? year : year - 1;
    const std::int64_t m = month > 2 ? month - 3 : month + 9;
    const std::int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
    return ((days * 24 + hour) * 60 + minute) * 60000 + second * 1000 + ms;
}

/// A state in the notation of the vectors.
static std::string written(const licensing::State &state) {
    static const char *const statuses[] = {"starting", "licensed", "grace", "lapsed", "refused", "unlicensed"};
    std::ostringstream all;
    all << R"({"state":{"status":")" << statuses[static_cast<int>(state.status)] << R"(","usable":)" << written(state.usable)
        << R"(,"reason":)" << quoted_or_null(state.reason) << R"(,"licence_id":)" << quoted_or_null(state.licence_id)
        << R"(,"activation_id":)" << quoted_or_null(state.activation_id) << R"(,"plan_id":)" << quoted_or_null(state.plan_id)
        << R"(,"licence_status":)" << quoted_or_null(state.licence_status) << R"(,"seats":)"
        << (state.seats ? std::to_string(*state.seats) : "null") << R"(,"updates_until":)" << quoted_or_null(state.updates_until)
        << R"(,"expires_at":)" << quoted_or_null(state.expires_at) << R"(,"refresh_after":)" << quoted_or_null(state.refresh_after)
        << R"(,"offline":)" << written(state.offline) << R"(,"revocations":)" << quoted(state.revocations)
        << R"(,"clock_turned_back":)" << written(state.clock_turned_back) << R"(,"problem":)"
        << (state.problem ? quoted(state.problem->code) : "null") << "}}";
    return all.str();
}

/// A client, and the clock that it was given: `real` for the real one.
struct Driven {
    static constexpr std::int64_t real = INT64_MIN;
    std::atomic<std::int64_t> clock{real};
    std::unique_ptr<licensing::Client> client;
};

static std::map<std::string, std::shared_ptr<Driven>> clients;
static std::mutex lock; // of the clients, and of the output

static std::shared_ptr<Driven> opened(const Json &fields) {
    auto driven = std::make_shared<Driven>();
    licensing::Options options;
    options.base_url = fields["base_url"].text.value_or("");
    options.app_id = fields["app_id"].text.value_or("");
    options.root_keys = fields["root_key"].texts();
    options.licence_key = fields["licence_key"].text;
    options.fingerprint = fields["fingerprint"].text.value_or("");
    options.host = fields["host"].text.value_or("");
    options.product_version = fields["product_version"].text.value_or("");
    options.store_file = fields["store_file"].text;
    if (!fields["timeout_ms"].is_null()) options.timeout = std::chrono::milliseconds(std::stol(fields["timeout_ms"].written));
    options.background = fields["background"].written != "false";
    // The client may call it a moment longer than it is used.
    options.clock = [of = std::weak_ptr<Driven>(driven)] {
        const auto driven = of.lock();
        const auto set = driven ? driven->clock.load() : Driven::real;
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        return set == Driven::real ? std::chrono::duration_cast<std::chrono::milliseconds>(now).count() : set;
    };
    driven->client = std::make_unique<licensing::Client>(options);
    return driven;
}

static std::string verified(const Json &argument) {
    licensing::Headers headers;
    for (const auto &[name, value] : argument["headers"].fields) headers.emplace_back(name, value.text.value_or(""));
    if (argument["signature"].text) headers.emplace_back("Webhook-Signature", *argument["signature"].text);
    const auto &tolerance = argument["tolerance_seconds"], &now = argument["now"];
    const std::chrono::seconds seconds(tolerance.is_null() ? 300 : std::stol(tolerance.written));
    try {
        return "{\"event\":" +
               licensing::verify_webhook(decoded(argument["body_base64"].text.value_or("")), headers, argument["secrets"].texts(),
                                         seconds, now.text ? milliseconds(*now.text) : 0) +
               "}";
    } catch (const licensing::Error &refused) {
        return "{\"reason\":" + quoted(refused.what()) + "}";
    }
}

static std::string called(Driven &driven, const std::string &call, const Json &argument) {
    auto &client = *driven.client;
    const auto text = argument.text.value_or("");
    if (call == "has_feature") return std::string("{\"value\":") + written(client.has_feature(text)) + "}";
    if (call == "limit") return "{\"value\":" + std::to_string(client.limit(text)) + "}";
    if (call == "covers") return std::string("{\"value\":") + written(client.covers(text)) + "}";
    if (call == "create_offline_request") return "{\"text\":" + quoted(client.create_offline_request()) + "}";
    if (call == "clock") driven.clock = argument.text ? milliseconds(text) : Driven::real;
    if (call == "close") client.close();
    if (call == "clock" || call == "close") return "{\"ok\":true}";
    if (call == "activate_offline") return written(client.activate_offline(text));
    if (call == "start_trial") return written(client.start_trial(text));
    if (call == "migrate") return written(client.migrate(text));
    using Call = licensing::State (licensing::Client::*)();
    static const std::map<std::string, Call> calls = {
        {"ready", &licensing::Client::ready},           {"activate", &licensing::Client::activate},
        {"refresh", &licensing::Client::refresh},       {"check", &licensing::Client::check},
        {"deactivate", &licensing::Client::deactivate}, {"release", &licensing::Client::release},
        {"call_home", &licensing::Client::call_home},
    };
    return written(call == "state" ? client.state() : (client.*calls.at(call))());
}

static std::string outcome(const Json &order) {
    const auto call = *order["call"].text;
    const auto name = order["client"].text.value_or("a");
    const auto &argument = order["argument"];
    if (call == "machine_fingerprint") {
        return "{\"text\":" + quoted(licensing::machine_fingerprint(*argument["app_id"].text, argument["file"].text)) + "}";
    }
    if (call == "verify_webhook") return verified(argument);
    if (call == "new") {
        const auto driven = opened(order["options"]);
        const std::lock_guard<std::mutex> held(lock);
        clients[name] = driven;
        return "{\"ok\":true}";
    }
    std::unique_lock<std::mutex> held(lock);
    const auto driven = clients.at(name);
    held.unlock();
    return called(*driven, call, argument);
}

static void answer(const Json &order) {
    std::string result;
    try {
        result = outcome(order);
    } catch (const std::exception &error) {
        result = "{\"threw\":" + quoted(error.what()) + "}";
    }
    const std::lock_guard<std::mutex> held(lock);
    std::cout << "{\"id\":" << order["id"].written << "," << result.substr(1) << std::endl;
}

int main() {
    std::vector<std::thread> running;
    for (std::string line; std::getline(std::cin, line);) {
        const auto order = Reader(line).value();
        if (order["call"].text == "exit") std::exit(std::stoi(order["argument"].written));
        if (order["call"].text == "new") {
            answer(order); // a later line may use the client
        } else {
            running.emplace_back(answer, order);
        }
    }
    for (auto &thread : running) thread.join();
}
