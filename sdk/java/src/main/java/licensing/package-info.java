/**
 * The licence of an installed product ({@link licensing.LicenceClient}), and the verification of
 * webhooks ({@link licensing.Webhooks}).
 *
 * <p>{@code sdk/README.md}, "How the client works", describes the client for all languages. The
 * classes have the names of its parts: {@code time.ts} is SeenTime, {@code state.ts} LicenceState,
 * {@code record.ts} StoredRecord, {@code signature.ts} SignedText, and {@code trust.ts} the records
 * RootKeys, Keys, TokenClaims, RevocationList and LicenceFile. Inside, times are milliseconds since
 * 1970 UTC, and null means that a value is absent.
 */
package licensing;
