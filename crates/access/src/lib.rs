//! Callers with tokens: what a token is, and what its holder may do.
//!
//! A [`Principal`] is a named holder of rights, one table of the [`AccessFile`]. It shows a
//! [`Secret`], of which the file has only the hash, or a certificate of its name. [`Grants`] are
//! what it may do. A server judges by its [`Access`] which [`Caller`] makes a call.
//!
//! What it may not know: files, networks, tasks, what a call does.

mod access_file;
mod caller;
mod file_edit;
mod grants;
mod principal;
mod principal_table;
mod secret;

pub use access_file::AccessFile;
pub use caller::{Access, BadCredentials, Caller, Credentials, MissingRight};
pub use file_edit::{EditError, add_principal, add_token, remove_principal, remove_token};
pub use grants::{
    BadPattern, ClusterRight, FAMILY_PREFIX, GrantPattern, GrantTarget, Grants, NamespaceRight,
};
pub use principal::Principal;
pub use principal_table::{BadAccessFile, FILE_BYTES_MAX, TOKENS_MAX};
pub use secret::{BadSecret, NoRandomness, Secret, SecretHash};
