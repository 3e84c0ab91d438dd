package licensing

// Status is the status of the licence in the product.
type Status string

const (
	// StatusStarting: the store has not been read yet. Nothing is granted.
	StatusStarting Status = "starting"
	// StatusLicensed: the token is valid. It determines features and limits.
	StatusLicensed Status = "licensed"
	// StatusGrace: the token is valid, but the service refused to renew it, or renewal is overdue because the service
	// cannot be reached. All is granted until ExpiresAt.
	StatusGrace Status = "grace"
	// StatusLapsed: the token has ended, and the service could not be asked for a new one. Nothing is granted.
	StatusLapsed Status = "lapsed"
	// StatusRefused: the service refused, and there is no valid token, or the licence is revoked. Nothing is granted.
	StatusRefused Status = "refused"
	// StatusUnlicensed: there is no token. Nothing is granted.
	StatusUnlicensed Status = "unlicensed"
)

// Reason is the reason of a status, or the code of a [Problem].
type Reason string

// The service refused. It may add statuses of licences and refusals over time.
const (
	ReasonSuspended         Reason = "suspended"
	ReasonRevoked           Reason = "revoked"
	ReasonExpired           Reason = "expired"
	ReasonRetired           Reason = "retired"
	ReasonDomainNotAllowed  Reason = "domain_not_allowed"
	ReasonLimitReached      Reason = "limit_reached"
	ReasonQuotaExceeded     Reason = "quota_exceeded"
	ReasonNoPlace           Reason = "no_place"
	ReasonTrialUsed         Reason = "trial_used"
	ReasonUnknownPlan       Reason = "unknown_plan"
	ReasonPlanArchived      Reason = "plan_archived"
	ReasonUnknownLicenceKey Reason = "unknown_licence_key"
	ReasonUnknownLegacyKey  Reason = "unknown_legacy_key"
	ReasonActivationFreed   Reason = "activation_freed"
	ReasonTokenRejected     Reason = "token_rejected"
	ReasonInvalidRequest    Reason = "invalid_request"
)

// The service could not be asked, or gave no valid answer. A later try may succeed.
const (
	ReasonUnreachable        Reason = "unreachable"
	ReasonTimeout            Reason = "timeout"
	ReasonUnavailable        Reason = "unavailable"
	ReasonRateLimited        Reason = "rate_limited"
	ReasonUnexpectedAnswer   Reason = "unexpected_answer"
	ReasonUntrustedSignature Reason = "untrusted_signature"
	ReasonUntrustedKeys      Reason = "untrusted_keys"
	ReasonKeysExpired        Reason = "keys_expired"
	ReasonKeysOutdated       Reason = "keys_outdated"
)

// There is no token.
const (
	ReasonNotActivated       Reason = "not_activated"
	ReasonNoLicenceKey       Reason = "no_licence_key"
	ReasonDeactivated        Reason = "deactivated"
	ReasonReleased           Reason = "released"
	ReasonFingerprintChanged Reason = "fingerprint_changed"
	ReasonLicenceKeyChanged  Reason = "licence_key_changed"
	ReasonStoreCorrupt       Reason = "store_corrupt"
)

// An offline file was refused. ReasonKeysOutdated, ReasonUntrustedKeys and ReasonUntrustedSignature can be the reason too.
const (
	ReasonRootKeyRequired          Reason = "root_key_required"
	ReasonFileMalformed            Reason = "file_malformed"
	ReasonFileOfAnotherApplication Reason = "file_of_another_application"
	ReasonFileOfAnotherMachine     Reason = "file_of_another_machine"
	ReasonFileExpired              Reason = "file_expired"
	ReasonFileOutdated             Reason = "file_outdated"
)

// ReasonTokenExpired: the token has ended, and no other reason is known.
const ReasonTokenExpired Reason = "token_expired"

// Only the code of a [Problem].
const (
	ReasonListExpired     Reason = "list_expired"
	ReasonListOutdated    Reason = "list_outdated"
	ReasonListGap         Reason = "list_gap"
	ReasonStoreFailed     Reason = "store_failed"
	ReasonUnexpectedError Reason = "unexpected_error"
)

// Operation is the origin of a [Problem].
type Operation string

const (
	OperationActivate        Operation = "activate"
	OperationActivateOffline Operation = "activate_offline"
	OperationRefresh         Operation = "refresh"
	OperationCheck           Operation = "check"
	OperationMigrate         Operation = "migrate"
	OperationStartTrial      Operation = "start_trial"
	OperationRelease         Operation = "release"
	OperationDeactivate      Operation = "deactivate"
	OperationCallHome        Operation = "call_home"
	OperationStore           Operation = "store"
	OperationInternal        Operation = "internal"
)

// fileRefusals explains why an offline file was refused.
var fileRefusals = map[Reason]string{
	ReasonRootKeyRequired:          "offline files need a client with a root key",
	ReasonFileMalformed:            "the text is no offline licence file",
	ReasonFileOfAnotherApplication: "the file was made for another application",
	ReasonFileOfAnotherMachine:     "the file was made for another fingerprint",
	ReasonFileExpired:              "the file is past its end",
	ReasonFileOutdated:             "the file is older than the one in use",
	ReasonKeysOutdated:             "the key that signed the file has been withdrawn",
	ReasonUntrustedKeys:            "the file is not signed with a root key of this product",
	ReasonUntrustedSignature:       "the token is not signed by a key of the file",
}

// keysRefusals explains why the keys of an answer were refused.
var keysRefusals = map[Reason]string{
	ReasonUntrustedKeys: "the keys are not signed with a root key of this product",
	ReasonKeysExpired:   "the signed keys are past their end, or the clock is ahead",
	ReasonKeysOutdated:  "the signed keys are older than those held",
}

// refusals has the reasons of refusals, by operation. Any other refusal is a failure.
var refusals = map[Operation]map[string]Reason{
	OperationActivate: {
		"404 not_found":         ReasonUnknownLicenceKey,
		"409 limit_reached":     ReasonLimitReached,
		"409 quota_exceeded":    ReasonQuotaExceeded,
		"422 validation_failed": ReasonInvalidRequest,
	},
	OperationRefresh: {
		"401 unauthenticated": ReasonTokenRejected,
		"404 not_found":       ReasonActivationFreed,
		// The activation is known, so only a lease can be missing.
		"409 limit_reached":     ReasonNoPlace,
		"422 validation_failed": ReasonInvalidRequest,
	},
	OperationMigrate: {
		"404 not_found":         ReasonUnknownLegacyKey,
		"422 validation_failed": ReasonInvalidRequest,
	},
	OperationStartTrial: {
		"404 not_found":         ReasonUnknownPlan,
		"409 limit_reached":     ReasonLimitReached,
		"409 plan_archived":     ReasonPlanArchived,
		"409 quota_exceeded":    ReasonQuotaExceeded,
		"422 validation_failed": ReasonInvalidRequest,
	},
}
