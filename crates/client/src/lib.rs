#![doc = include_str!("../README.md")]
//!
//! What it may not know: how numbers are made durable, leases, clocks other than the runtime's.

/// The Rust examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/ids.md")]
mod guide {}

mod admin;
mod attempt;
mod batch_item;
mod call;
mod client;
mod client_core;
mod error;
mod ids;
mod namespace_handle;
mod options;
mod pipe;
mod raise_to_call;
mod routing;
mod types;

pub use admin::{Admin, BackupStream, family_of};
pub use batch_item::{BatchItem, BatchItemKey, NextItem};
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use ids::{FamilyHandle, LocalIds, LocalOptions};
pub use namespace_handle::NamespaceHandle;
pub use options::ClientOptions;
pub use raise_to_call::RaiseToCall;
pub use seqsvr_core::family::{Family, FamilyChange, FamilyLimits, FamilySpec, TickStart};
pub use seqsvr_core::geometry::Geometry;
pub use seqsvr_core::ids::WorkerId;
pub use seqsvr_core::namespace::{Namespace, NamespaceChange, NamespaceLimits, NamespaceSpec};
pub use seqsvr_core::progression::Progression;
pub use seqsvr_ids::codec::IdParts;
pub use seqsvr_ids::presets::{IdReading, IdScheme};
pub use seqsvr_proto::key::KeyBuf as Key;
pub use seqsvr_proto::v1::Reason;
pub use tonic::Code;
pub use types::{Current, CurrentKind, IssuedRange, Raised};
