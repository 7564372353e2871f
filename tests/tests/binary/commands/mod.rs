//! Commands of users and operators against running servers.

mod bench;
mod completion;
mod documents;
mod exit_codes;
mod namespace;
mod wrong_or_silent_server;
