package licensing;

/**
 * The installation that a text must have been signed for.
 *
 * @param licenceKey the key that the product was given; null to use the stored one
 */
record Identity(String appId, String fingerprint, String licenceKey, RootKeys rootKeys) {}
