//! The words of a state, each listed once. The README of the SDKs explains them.

use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every word of this kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word, as all SDKs spell it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The status of the licence in the product.
    Status {
        /// The store has not been read yet; nothing is granted.
        Starting = "starting",
        /// The token is valid; it determines features and limits.
        Licensed = "licensed",
        /// The token is still valid, but is not being renewed: the service refused to renew it, or renewal is overdue because
        /// the service cannot be reached. All is granted until `expires_at`.
        Grace = "grace",
        /// The token has ended and the service could not be asked for a new one. Nothing is granted.
        Lapsed = "lapsed",
        /// The service refused, and there is no valid token (or the licence is revoked). Nothing is granted.
        Refused = "refused",
        /// There is no token. Nothing is granted.
        Unlicensed = "unlicensed",
    }
}

words! {
    /// The freshness of the revocation list.
    Revocations {
        /// The list was checked within two check intervals.
        Current = "current",
        /// The list was checked longer ago, goes on, or has ended.
        Stale = "stale",
        /// There is no list.
        Unknown = "unknown",
    }
}

words! {
    /// The origin of a problem: a call, the store, or an error in the SDK (`internal`).
    #[allow(missing_docs)]
    Operation {
        Activate = "activate",
        ActivateOffline = "activate_offline",
        Refresh = "refresh",
        Check = "check",
        Migrate = "migrate",
        StartTrial = "start_trial",
        Release = "release",
        Deactivate = "deactivate",
        CallHome = "call_home",
        Store = "store",
        Internal = "internal",
    }
}

/// The reason for a status, or the code of a problem.
///
/// The service may add refusals, so this is a text with names for the known ones.
///
/// ```
/// use licensing::Reason;
/// assert_eq!(Reason::TRIAL_USED.as_str(), "trial_used");
/// assert_eq!(Reason::from("trial_used".to_string()), Reason::TRIAL_USED);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// The word, as all SDKs spell it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Reason {
    fn from(word: String) -> Self {
        Self(Cow::Owned(word))
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        impl Reason {
            /// Every reason and code that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            $($(#[$doc])* pub const $name: Self = Self(Cow::Borrowed($text));)*
        }
    };
}

reasons! {
    /// Failure: no connection, or it was cut.
    UNREACHABLE = "unreachable",
    /// Failure: no complete answer within the timeout.
    TIMEOUT = "timeout",
    /// Failure: the service answered 5xx.
    UNAVAILABLE = "unavailable",
    /// Failure: the service answered 429.
    RATE_LIMITED = "rate_limited",
    /// Failure: the answer is not one of the service.
    UNEXPECTED_ANSWER = "unexpected_answer",
    /// Failure, file: not signed by a key of the application.
    UNTRUSTED_SIGNATURE = "untrusted_signature",
    /// Failure, file: the keys are not signed by a root key of the product.
    UNTRUSTED_KEYS = "untrusted_keys",
    /// Failure: the key set has ended.
    KEYS_EXPIRED = "keys_expired",
    /// Failure, file: the key set is older than the one in use, or the signing key was withdrawn.
    KEYS_OUTDATED = "keys_outdated",
    /// Failure, file: the runtime cannot verify Ed25519. Never in this SDK.
    UNSUPPORTED_RUNTIME = "unsupported_runtime",
    /// Refusal: the licence is suspended.
    SUSPENDED = "suspended",
    /// Refusal: the licence is revoked.
    REVOKED = "revoked",
    /// Refusal: the licence has expired.
    EXPIRED = "expired",
    /// Refusal: the licence is retired.
    RETIRED = "retired",
    /// Refusal: the licence does not include the host.
    DOMAIN_NOT_ALLOWED = "domain_not_allowed",
    /// Refusal: too many activations.
    LIMIT_REACHED = "limit_reached",
    /// Refusal: too many activations or new trials on one day.
    QUOTA_EXCEEDED = "quota_exceeded",
    /// Refusal: all leases of the floating licence are held.
    NO_PLACE = "no_place",
    /// Refusal: this machine has used its trial.
    TRIAL_USED = "trial_used",
    /// Refusal: there is no such plan.
    UNKNOWN_PLAN = "unknown_plan",
    /// Refusal: the plan is archived.
    PLAN_ARCHIVED = "plan_archived",
    /// Refusal: there is no such licence key.
    UNKNOWN_LICENCE_KEY = "unknown_licence_key",
    /// Refusal: there is no such legacy key.
    UNKNOWN_LEGACY_KEY = "unknown_legacy_key",
    /// Refusal: the activation was freed.
    ACTIVATION_FREED = "activation_freed",
    /// Refusal: the token is not known any more.
    TOKEN_REJECTED = "token_rejected",
    /// Refusal: the fingerprint, the host or the version is not valid.
    INVALID_REQUEST = "invalid_request",
    /// Absence: the product was not activated.
    NOT_ACTIVATED = "not_activated",
    /// Absence: there is no licence key.
    NO_LICENCE_KEY = "no_licence_key",
    /// Absence: the activation was freed by the product.
    DEACTIVATED = "deactivated",
    /// Absence: the lease was released by the product.
    RELEASED = "released",
    /// Absence: the token in the store is of another fingerprint.
    FINGERPRINT_CHANGED = "fingerprint_changed",
    /// Absence: the store is of another licence key.
    LICENCE_KEY_CHANGED = "licence_key_changed",
    /// Absence: the store cannot be used.
    STORE_CORRUPT = "store_corrupt",
    /// File: an unpinned client refuses files.
    ROOT_KEY_REQUIRED = "root_key_required",
    /// File: the text is no licence file.
    FILE_MALFORMED = "file_malformed",
    /// File: made for another application.
    FILE_OF_ANOTHER_APPLICATION = "file_of_another_application",
    /// File: made for another fingerprint.
    FILE_OF_ANOTHER_MACHINE = "file_of_another_machine",
    /// File: past its end.
    FILE_EXPIRED = "file_expired",
    /// File: a newer one is in use.
    FILE_OUTDATED = "file_outdated",
    /// End: the token has ended, and nothing else is known.
    TOKEN_EXPIRED = "token_expired",
    /// Problem only: the revocation list has ended.
    LIST_EXPIRED = "list_expired",
    /// Problem only: the revocation list is older than the one held.
    LIST_OUTDATED = "list_outdated",
    /// Problem only: the revocation list does not continue the one held.
    LIST_GAP = "list_gap",
    /// Problem only: the store failed, and the client goes on in memory.
    STORE_FAILED = "store_failed",
    /// Problem only: an error in the SDK, or in a function of the product that it called.
    UNEXPECTED_ERROR = "unexpected_error",
}
