package licensing;

import java.util.Map;

/**
 * A verified event.
 *
 * @param id the same for each delivery of the event
 * @param type {@code licence.revoked}, …; new types are added over time
 * @param body all members of the event: maps, lists, strings, {@code Long} for integers, booleans,
 *     null
 */
public record WebhookEvent(String id, String type, Map<String, Object> body) {
  /** The members of {@code data.object}: small on purpose, fetch the licence for more. */
  public Map<String, Object> object() {
    Map<String, Object> data = Json.object(body.get("data"));
    Map<String, Object> object = data == null ? null : Json.object(data.get("object"));
    return object == null ? Map.of() : object;
  }
}
