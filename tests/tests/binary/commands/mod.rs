//! Commands of users and operators against running servers.

mod bench;
mod completion;
mod namespace;
