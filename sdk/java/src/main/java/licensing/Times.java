package licensing;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.format.ResolverStyle;
import java.time.temporal.TemporalAccessor;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** Times as texts: ISO 8601 in the store, and the headers of HTTP. */
final class Times {
  private static final DateTimeFormatter ISO =
      new DateTimeFormatterBuilder()
          .append(DateTimeFormatter.ISO_LOCAL_DATE)
          .optionalStart()
          .appendLiteral('T')
          .append(DateTimeFormatter.ISO_LOCAL_TIME)
          .optionalStart()
          .appendOffsetId()
          .toFormatter()
          .withResolverStyle(ResolverStyle.STRICT);
  private static final DateTimeFormatter WITHOUT_YEAR =
      DateTimeFormatter.ofPattern("-MM-dd'T'HH:mm:ss.SSS'Z'");

  private Times() {}

  /**
   * A time as the store has it: {@code 2026-11-21T10:00:00.000Z}, with six digits and a sign for a
   * year of other length.
   */
  static String iso(long ms) {
    OffsetDateTime time = Instant.ofEpochMilli(ms).atOffset(ZoneOffset.UTC);
    int year = time.getYear();
    return (year >= 0 && year <= 9999 ? "%04d" : "%+07d").formatted(year)
        + WITHOUT_YEAR.format(time);
  }

  /** The milliseconds of an ISO 8601 time, in UTC if it names no zone; null for any other text. */
  static Long parseIso(String text) {
    if (text == null) return null;
    try {
      TemporalAccessor time =
          ISO.parseBest(text, OffsetDateTime::from, LocalDateTime::from, LocalDate::from);
      if (time instanceof LocalDate day) time = day.atStartOfDay();
      if (time instanceof LocalDateTime local) time = local.atOffset(ZoneOffset.UTC);
      long ms = Instant.from(time).toEpochMilli();
      return Math.abs(ms) <= SeenTime.MAX_MS ? ms : null;
    } catch (DateTimeException | ArithmeticException malformed) {
      return null;
    }
  }

  /** RFC 9110, section 5.6.7: the usual form, that of RFC 850, and that of C's asctime. */
  private static final List<DateTimeFormatter> HTTP_DATES =
      Stream.of(
              "EEE, dd MMM yyyy HH:mm:ss 'GMT'",
              "EEEE, dd-MMM-yy HH:mm:ss 'GMT'",
              "EEE MMM ppd HH:mm:ss yyyy")
          .map(form -> DateTimeFormatter.ofPattern(form, Locale.US))
          .toList();

  /** The milliseconds of a date in a header of HTTP; null for any other text. */
  static Long parseHttpDate(String text) {
    for (DateTimeFormatter form : HTTP_DATES) {
      try {
        return LocalDateTime.parse(text, form).toInstant(ZoneOffset.UTC).toEpochMilli();
      } catch (DateTimeException another) {
        // The next form may fit.
      }
    }
    return null;
  }

  /**
   * How long a {@code Retry-After} header asks to wait, in milliseconds; null if it has no valid
   * value.
   *
   * @param sentAt the {@code Date} header of the same answer, or null. A date is compared with it,
   *     because the local clock may be wrong
   */
  static Long retryAfterMs(String header, String sentAt, long now) {
    if (header == null) return null;
    if (header.matches("[0-9]{1,10}")) return Long.parseLong(header) * 1000;
    Long until = parseHttpDate(header);
    Long from = sentAt == null ? null : parseHttpDate(sentAt);
    return until == null ? null : (Long) Math.max(until - (from == null ? now : from), 0);
  }
}
