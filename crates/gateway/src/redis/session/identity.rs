//! Who sends the commands of a connection.
//!
//! Invariant: each command is executed by the identity at its place: by that of the last AUTH or
//! HELLO before it, or else by what the connection itself shows. An AUTH or HELLO that fails leaves
//! none, neither that of an earlier token nor that of a certificate; RESET goes back to that of the
//! connection. A command that may change the identity ends its batch (`command_batch`), and fails
//! in a transaction.
//!
//! Schedules that break it: a pool gives the connection of one tenant to another, which sends
//! `AUTH b wrong` and `INCR key` in one write; by the identity before, the INCR takes a number of
//! the first tenant. Or a proxy with a certificate passes on the commands of a caller whose token
//! was removed; by its certificate, they succeed as those of the proxy.

use std::net::SocketAddr;

use seqsvr_access::{Access, Caller, Secret};
use seqsvr_net::{ConnectionPeer, judge_caller};
use tokio::time::Instant;

/// The reply to a command of a connection without an identity.
pub(in crate::redis) const NOAUTH: &str = "NOAUTH Authentication required.";
pub(super) const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// User of clients that send a password only.
const DEFAULT_USER: &str = "default";

/// The reason why AUTH or HELLO failed.
pub(super) enum AuthError {
    /// The token is of no principal, or of another one than the user.
    WrongToken,
    /// No token is judged; the text is the answer.
    Rejected(&'static str),
}

/// The identity of a connection at the next of its commands.
pub(in crate::redis) struct SessionIdentity<'a> {
    access: &'a Access,
    peer: &'a ConnectionPeer,
    /// What the connection shows without a token; None: nothing that names a caller.
    initial: Option<Caller>,
    caller: Option<Caller>,
    /// Time since which there is no caller.
    unknown_since: Option<Instant>,
}

impl<'a> SessionIdentity<'a> {
    /// Makes the identity of a connection that has sent nothing yet.
    pub(in crate::redis) fn new(
        access: &'a Access,
        peer: &'a ConnectionPeer,
    ) -> SessionIdentity<'a> {
        let mut identity = SessionIdentity {
            access,
            peer,
            initial: judge_caller(access, None, Some(peer)).ok(),
            caller: None,
            unknown_since: None,
        };
        identity.reset();
        identity
    }

    /// Returns who sends the next command; None: the connection has no identity.
    pub(in crate::redis) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the time since which the connection has no identity; None: it has one. Neither a
    /// wrong token nor RESET makes it later.
    pub(in crate::redis) fn unknown_since(&self) -> Option<Instant> {
        self.unknown_since
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.peer.remote()
    }

    /// Returns the name of the principal, or `default`.
    pub(super) fn user_name(&self) -> &str {
        let name = self.caller.as_ref().and_then(Caller::principal_name);
        name.unwrap_or(DEFAULT_USER)
    }

    /// Makes the principal of a token the caller. `user` is its name, or `default`. On a server
    /// without principals, AUTH is answered as by a Redis without a password.
    ///
    /// # Errors
    /// AUTH or HELLO fails, see [`note_failed_auth`](SessionIdentity::note_failed_auth).
    pub(super) fn authenticate(
        &mut self,
        user: Option<&[u8]>,
        token: &[u8],
    ) -> Result<(), AuthError> {
        if !self.access.has_principals() {
            return self.check_without_principals(user);
        }
        let token = str::from_utf8(token).ok();
        let token = token.and_then(|token| Secret::parse(token).ok());
        let token = token.ok_or(AuthError::WrongToken)?;
        let judged = judge_caller(self.access, Some(&token), Some(self.peer));
        let caller = judged.map_err(|_| AuthError::WrongToken)?;
        let is_user = |user: &[u8]| {
            let name = caller.principal_name();
            user == DEFAULT_USER.as_bytes() || name.is_some_and(|name| name.as_bytes() == user)
        };
        if !user.is_none_or(is_user) {
            return Err(AuthError::WrongToken);
        }
        self.set_caller(Some(caller));
        Ok(())
    }

    /// Redis has a user `default` that any password admits, if the command names it.
    fn check_without_principals(&self, user: Option<&[u8]>) -> Result<(), AuthError> {
        Err(AuthError::Rejected(match user {
            _ if self.initial.is_none() => {
                "NOAUTH this server takes no tokens, and the certificate of this connection names no caller; use one that `seqsvr cert client` made"
            }
            Some(user) if user == DEFAULT_USER.as_bytes() => return Ok(()),
            Some(_) => WRONGPASS,
            None => {
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
            }
        }))
    }

    /// Notes an AUTH or HELLO that failed: there is no caller, unless the server has no principals,
    /// where the connection alone counts.
    pub(in crate::redis) fn note_failed_auth(&mut self) {
        if self.access.has_principals() {
            self.set_caller(None);
        }
    }

    /// Goes back to what the connection shows without a token.
    pub(super) fn reset(&mut self) {
        self.set_caller(self.initial.clone());
    }

    fn set_caller(&mut self, caller: Option<Caller>) {
        self.unknown_since = match caller {
            Some(_) => None,
            None => self.unknown_since.or_else(|| Some(Instant::now())),
        };
        self.caller = caller;
    }
}
