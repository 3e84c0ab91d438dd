//! Licences in installed products, and webhooks in vendors' backends.
//!
//! [`Client`] activates a product, and answers what the licence grants, also without a network: the service signs tokens, which
//! the client verifies and keeps in a [`Store`]. [`machine_fingerprint`] identifies the machine, [`verify_webhook`] verifies a
//! webhook delivery.
//!
//! The modules follow the parts of "How the client works" in the README of the SDKs.

mod attempts;
mod background;
mod c;
mod calls;
mod client;
mod file_store;
mod held;
mod machine_fingerprint;
mod random;
mod reasons;
mod record;
mod service;
mod session;
mod signature;
mod state;
mod store;
mod time;
mod timestamps;
mod trust;
mod webhooks;

pub use attempts::Problem;
pub use client::{Client, ListenerId, Options};
pub use file_store::FileStore;
pub use machine_fingerprint::machine_fingerprint;
pub use reasons::{Operation, Reason, Revocations, Status};
pub use service::{Request, Response, Transport};
pub use state::State;
pub use store::{MemoryStore, Store};
pub use trust::{InvalidRootKey, RootKey};
pub use webhooks::{verify_webhook, SignatureHeaders, WebhookError, WebhookEvent, WebhookOptions};

/// Compiles the programs of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
