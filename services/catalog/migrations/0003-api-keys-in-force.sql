-- Counted against the account's quota.
create index api_keys_in_force on api_keys (account_id) where revoked_at is null;
