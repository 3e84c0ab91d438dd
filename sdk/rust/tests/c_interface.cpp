// The C++ wrapper, with answers that the test gives. Run by tests/c_interface.rs.
#include "licensing.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

template <typename Exception, typename Work> std::string thrown(Work work) {
    try {
        work();
    } catch (const Exception &error) {
        return error.what();
    }
    return "";
}

int main(int count, char **given) {
    CHECK(count == 5);
    const std::string token = given[1], jwks = given[2], list = given[3], folder = given[4];
    licensing::Options options;
    options.base_url = "https://licensing.example.com";
    options.app_id = "app_01kahz5k00e000000000000001";
    CHECK(thrown<std::invalid_argument>([&] { licensing::Client client(options); }).find("root_key") != std::string::npos);
    options.root_keys = {"unpinned"};
    options.licence_key = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF";
    options.fingerprint = "machine-1";
    options.host = "app.example.com";
    options.product_version = "4.2.0";
    options.store_file = folder + "/cpp/licence.json";
    options.background = false;
    options.clock = [] { return INT64_C(1795255200000); };
    bool online = true;
    options.send = [&](const licensing::Request &request) {
        if (!online) throw std::runtime_error("no network");
        const bool wants_keys = request.url.find("jwks.json") != std::string::npos;
        const bool wants_list = request.url.find("revocations") != std::string::npos;
        CHECK(request.timeout.count() > 0 && !request.headers.empty());
        return licensing::Response{200, {{"content-type", "application/json"}}, wants_keys ? jwks : wants_list ? list : token};
    };
    std::atomic<int> heard{0};
    {
        licensing::Client client(options);
        client.on_change([&](const licensing::State &state) {
            if (state.usable) heard++;
            throw std::runtime_error("an error of a listener does no harm");
        });
        const auto state = client.activate();
        CHECK(state.status == licensing::Status::licensed && state.usable && !state.reason && !state.problem);
        CHECK(state.licence_id == "lic_01kahz5k00e000000000000002" && state.expires_at == "2026-11-22T10:00:00.000Z");
        CHECK(client.has_feature("export_pdf") && client.limit("max_projects") == 25 && client.covers("2026-11-01"));
        CHECK(client.licence_key() == options.licence_key && heard == 1);
        CHECK(client.create_offline_request().find("machine-1") != std::string::npos);
        std::thread other([&] { client.refresh(); });
        client.check();
        other.join();
        CHECK(client.state().revocations == "current");
        licensing::Client moved(std::move(client));
        CHECK(moved.has_feature("export_pdf"));
    }
    online = false;
    licensing::Client later(options);
    CHECK(later.activate().usable && later.call_home().problem->code == "unreachable");
    CHECK(later.activate_offline("no file").problem->code == "root_key_required");

    CHECK(licensing::machine_fingerprint("app_1").size() == 64);
    CHECK(!thrown<licensing::Error>([&] { licensing::machine_fingerprint("app_1", folder); }).empty());
    const std::string body = R"({"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}})";
    const licensing::Headers headers = {
        {"webhook-signature", "t=1795255200,v1=1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b"}};
    const auto verify = [&](const char *secret) {
        return licensing::verify_webhook(body, headers, {secret}, std::chrono::seconds(300), 1795255200000);
    };
    CHECK(verify("whsec_test") == body);
    CHECK(thrown<licensing::Error>([&] { verify("whsec_other"); }) == "signature_mismatch");
    std::puts("the C++ wrapper is right");
}
