package licensing;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.TemporalAccessor;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

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
          .toFormatter();
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

  /**
   * The milliseconds of an ISO 8601 time; null for any other text. A date is its first moment in
   * UTC.
   */
  static Long parseIso(String text) {
    if (text == null) return null;
    try {
      TemporalAccessor time =
          ISO.parseBest(text, OffsetDateTime::from, LocalDateTime::from, LocalDate::from);
      Instant instant;
      if (time instanceof OffsetDateTime exact) instant = exact.toInstant();
      else if (time instanceof LocalDateTime local)
        instant = local.atZone(ZoneId.systemDefault()).toInstant();
      else instant = ((LocalDate) time).atStartOfDay(ZoneOffset.UTC).toInstant();
      long ms = instant.toEpochMilli();
      return Math.abs(ms) <= SeenTime.MAX_MS ? ms : null;
    } catch (DateTimeException | ArithmeticException malformed) {
      return null;
    }
  }

  private static final String CLOCK =
      "(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|60)";

  /** RFC 9110, section 5.6.7: the usual form, that of RFC 850, and that of C's asctime. */
  private static final List<Pattern> HTTP_DATES =
      List.of(
          Pattern.compile(
              "[A-Z][a-z]{2}, (?<day>\\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\\d{4}) "
                  + CLOCK
                  + " GMT"),
          Pattern.compile(
              "[A-Z][a-z]{5,8}, (?<day>\\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\\d{2}) "
                  + CLOCK
                  + " GMT"),
          Pattern.compile(
              "[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \\d]\\d) "
                  + CLOCK
                  + " (?<year>\\d{4})"));

  private static final List<String> MONTHS =
      List.of("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec");

  /** The milliseconds of a date in a header of HTTP; null for any other text. */
  static Long parseHttpDate(String text, long now) {
    for (Pattern form : HTTP_DATES) {
      Matcher date = form.matcher(text);
      if (date.matches()) return millis(date, now);
    }
    return null;
  }

  private static Long millis(Matcher date, long now) {
    try {
      int year = Integer.parseInt(date.group("year"));
      if (date.group("year").length() == 2) year = fullYear(year, now);
      LocalDateTime minute =
          LocalDateTime.of(
              year,
              MONTHS.indexOf(date.group("month")) + 1,
              Integer.parseInt(date.group("day").strip()),
              Integer.parseInt(date.group("hour")),
              Integer.parseInt(date.group("minute")));
      // The second may be 60.
      return 1000 * (minute.toEpochSecond(ZoneOffset.UTC) + Integer.parseInt(date.group("second")));
    } catch (DateTimeException noSuchDay) {
      return null;
    }
  }

  /**
   * A year with two digits that seems to be more than 50 years ahead is the last year in the past
   * that ends like this.
   */
  private static int fullYear(int digits, long now) {
    int thisYear = Instant.ofEpochMilli(now).atOffset(ZoneOffset.UTC).getYear();
    int year = thisYear - thisYear % 100 + digits;
    return year > thisYear + 50 ? year - 100 : year;
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
    Long until = parseHttpDate(header, now);
    Long from = sentAt == null ? null : parseHttpDate(sentAt, now);
    return until == null ? null : (Long) Math.max(until - (from == null ? now : from), 0);
  }
}
