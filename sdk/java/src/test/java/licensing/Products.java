package licensing;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A client and its state in the notation of the vectors. */
final class Products {
  private Products() {}

  /** A builder with the options of a vector. */
  static LicenceClient.Builder builder(Map<String, Object> fields) {
    LicenceClient.Builder builder =
        LicenceClient.builder()
            .baseUrl((String) fields.get("base_url"))
            .appId((String) fields.get("app_id"))
            .licenceKey((String) fields.get("licence_key"))
            .fingerprint((String) fields.get("fingerprint"))
            .host((String) fields.get("host"))
            .productVersion((String) fields.get("product_version"));
    Object rootKey = fields.get("root_key");
    if (rootKey instanceof List<?> keys) builder.rootKey(keys.toArray(String[]::new));
    else if (rootKey != null) builder.rootKey((String) rootKey);
    if (fields.get("nonce") instanceof String nonce) builder.nonce(() -> nonce);
    return builder;
  }

  static LicenceState call(LicenceClient client, String call, String argument) {
    return switch (call) {
      case "ready" -> client.ready();
      case "activate" -> client.activate();
      case "activate_offline" -> client.activateOffline(argument);
      case "start_trial" -> client.startTrial(argument);
      case "refresh" -> client.refresh();
      case "check" -> client.check();
      case "migrate" -> client.migrate(argument);
      case "release" -> client.release();
      case "deactivate" -> client.deactivate();
      case "call_home" -> client.callHome();
      case "state" -> client.state();
      default -> throw new IllegalArgumentException(call);
    };
  }

  /** The state with the names of the vectors. */
  static Map<String, Object> noted(LicenceState state) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("status", state.status().toString());
    fields.put("usable", state.usable());
    fields.put("reason", state.reason());
    fields.put("licence_id", state.licenceId());
    fields.put("activation_id", state.activationId());
    fields.put("plan_id", state.planId());
    fields.put("licence_status", state.licenceStatus());
    fields.put("seats", state.seats());
    fields.put("updates_until", time(state.updatesUntil()));
    fields.put("expires_at", time(state.expiresAt()));
    fields.put("refresh_after", time(state.refreshAfter()));
    fields.put("offline", state.offline());
    fields.put("revocations", state.revocations().toString());
    fields.put("clock_turned_back", state.clockTurnedBack());
    fields.put("problem", state.problem() == null ? null : state.problem().code());
    return fields;
  }

  private static String time(Instant instant) {
    return instant == null ? null : Times.iso(instant.toEpochMilli());
  }
}
