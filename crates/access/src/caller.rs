//! Who makes a call, and what it may do.
//!
//! Invariant: only [`Access::judge`] makes a [`Caller`], from what the other end showed, and what
//! takes a number needs one. With a file of principals each caller has exactly the rights that are
//! granted to it, except servers and operators, which have certificates of their own.
//!
//! Schedules that break it: an endpoint has no identity of its caller, and stands in a default that
//! may do everything. Or the token of a caller was removed from the file, and its calls succeed by
//! the certificate of the proxy that passes them on.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::Arc;

use crate::access_file::AccessFile;
use crate::grants::{ClusterRight, GrantTarget, Grants, NO_GRANTS, NamespaceRight};
use crate::principal::Principal;
use crate::secret::Secret;

/// What the other end of a connection showed, or a call.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    /// Nothing, over a connection without TLS from this address.
    Plaintext(IpAddr),
    /// A certificate of a server.
    ServerCertificate,
    /// A certificate of an operator.
    OperatorCertificate,
    /// A certificate of a client with this name.
    ClientCertificate(&'a str),
    /// A token, over a connection under TLS, or from this host.
    Token(&'a Secret),
}

/// Credentials that name no caller, with what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCredentials {
    /// Another machine could read what this connection carries.
    #[error(
        "this server has --auth-file, and this connection is without TLS; connect with TLS, and send a token or use a certificate"
    )]
    Plaintext,
    /// The token is of no principal.
    #[error(
        "the token is of no principal in the --auth-file of this server; use one that `seqsvr auth add` made for that file, and restart the server after a change of it"
    )]
    Token,
}

/// A right that a caller has not, with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{caller} has not the right {right} on {target}; grant it in the --auth-file of the server, and restart it"
)]
pub struct MissingRight {
    caller: String,
    right: &'static str,
    /// Without its name, so that the text for one that does not exist is the same.
    target: &'static str,
}

/// Judge of the callers of one server. Clones share its principals.
#[derive(Clone, Debug)]
pub struct Access(Option<Arc<AccessFile>>);

impl Access {
    /// Returns the judge of a server without principals, where the role of a certificate says what
    /// its holder may do.
    pub const fn by_role() -> Access {
        Access(None)
    }

    /// Returns the judge of a server with these principals.
    pub fn by_file(file: AccessFile) -> Access {
        Access(Some(Arc::new(file)))
    }

    /// Returns whether it has principals, so that callers show tokens.
    pub fn has_principals(&self) -> bool {
        self.0.is_some()
    }

    /// Returns who showed these credentials.
    ///
    /// # Errors
    /// They name no caller.
    pub fn judge(&self, shown: Credentials<'_>) -> Result<Caller, BadCredentials> {
        let identity = match (shown, &self.0) {
            (Credentials::Plaintext(_), None) => Identity::LocalOperator,
            (Credentials::Plaintext(remote), Some(_)) => {
                match remote.to_canonical().is_loopback() {
                    true => Identity::LocalOperator,
                    false => return Err(BadCredentials::Plaintext),
                }
            }
            (Credentials::ServerCertificate, _) => Identity::Server,
            (Credentials::OperatorCertificate, _) => Identity::Operator,
            (Credentials::ClientCertificate(_), None) => Identity::Client,
            (Credentials::ClientCertificate(name), Some(file)) => match file.principal(name) {
                Some(principal) => Identity::Principal(principal.clone()),
                None => Identity::Unlisted,
            },
            (Credentials::Token(_), None) => return Err(BadCredentials::Token),
            (Credentials::Token(token), Some(file)) => {
                let holder = file.holder_of(token).ok_or(BadCredentials::Token)?;
                Identity::Principal(holder.clone())
            }
        };
        Ok(Caller(identity))
    }
}

/// Who makes a call. Clones share the principal.
#[derive(Clone, Debug)]
pub struct Caller(Identity);

#[derive(Clone, Debug)]
enum Identity {
    /// Program of this host, or of any where the operator set `--insecure`.
    LocalOperator,
    /// Holder of an operator's certificate.
    Operator,
    /// Holder of a server's certificate.
    Server,
    /// Holder of a client's certificate, where no file limits it.
    Client,
    /// Principal of the file.
    Principal(Arc<Principal>),
    /// Holder of a client's certificate without a principal of its name.
    Unlisted,
}

impl Caller {
    /// Returns what it may do; None: its role says that, or it may do everything.
    pub fn grants(&self) -> Option<&Grants> {
        match &self.0 {
            Identity::LocalOperator | Identity::Operator | Identity::Server | Identity::Client => {
                None
            }
            Identity::Principal(principal) => Some(&principal.grants),
            Identity::Unlisted => Some(&NO_GRANTS),
        }
    }

    /// Returns the name of the principal that it is; None: it is none.
    pub fn principal_name(&self) -> Option<&str> {
        match &self.0 {
            Identity::Principal(principal) => Some(&principal.name),
            _ => None,
        }
    }

    /// Returns whether it has a right on a namespace or family. It allocates nothing.
    pub fn has_right_on(&self, right: NamespaceRight, target: GrantTarget<'_>) -> bool {
        self.grants()
            .is_none_or(|grants| grants.has_right_on(right, target))
    }

    /// Checks that it has a right on a namespace or family.
    ///
    /// # Errors
    /// It has not.
    pub fn check_right_on(
        &self,
        right: NamespaceRight,
        target: GrantTarget<'_>,
    ) -> Result<(), MissingRight> {
        match self.has_right_on(right, target) {
            true => Ok(()),
            false => Err(MissingRight {
                caller: self.to_string(),
                right: right.name(),
                target: match target {
                    GrantTarget::Namespace(_) => "this namespace",
                    GrantTarget::Family(_) => "this family of ids",
                },
            }),
        }
    }

    /// Returns whether it has a right on the cluster. It does not look at roles.
    pub fn has_right(&self, right: ClusterRight) -> bool {
        self.grants().is_none_or(|grants| grants.has_right(right))
    }

    /// Checks that it has a right on the cluster.
    ///
    /// # Errors
    /// It has not.
    pub fn check_right(&self, right: ClusterRight) -> Result<(), MissingRight> {
        match self.has_right(right) {
            true => Ok(()),
            false => Err(MissingRight {
                caller: self.to_string(),
                right: right.name(),
                target: "the cluster",
            }),
        }
    }

    /// Returns whether it may be shown a namespace or family: it has any right on it.
    pub fn may_see(&self, target: GrantTarget<'_>) -> bool {
        let mut rights = NamespaceRight::ALL.into_iter();
        rights.any(|right| self.has_right_on(right, target))
    }

    /// Returns whether it may force a raise. It needs the right to raise as well.
    pub fn may_force(&self) -> bool {
        match &self.0 {
            Identity::LocalOperator | Identity::Operator => true,
            Identity::Principal(principal) => principal.grants.has_right(ClusterRight::Admin),
            Identity::Server | Identity::Client | Identity::Unlisted => false,
        }
    }

    /// Returns whether its calls may be those of others, which it passes on.
    pub fn may_forward(&self) -> bool {
        matches!(self.0, Identity::LocalOperator | Identity::Server)
    }

    /// Returns whether it has no identity of its own, because it is a program of this host. A
    /// server may act for it with its own certificate.
    pub fn is_local_operator(&self) -> bool {
        matches!(self.0, Identity::LocalOperator)
    }
}

impl Display for Caller {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Identity::LocalOperator => f.write_str("a program of this host"),
            Identity::Operator => f.write_str("an operator"),
            Identity::Server => f.write_str("a server"),
            Identity::Client => f.write_str("a client"),
            Identity::Principal(principal) => write!(f, "principal {}", principal.name),
            Identity::Unlisted => f.write_str("a client without a principal of its name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ROUTABLE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
    const ORDERS: GrantTarget<'static> = GrantTarget::Namespace("orders");
    const IDS: GrantTarget<'static> = GrantTarget::Family("orders");

    /// Returns the judge of a file, and the token of its principal `billing`.
    fn file_with(rights: &str) -> (Access, Secret) {
        let token = Secret::generate().unwrap();
        let hash = token.hash();
        let text = format!("[[principal]]\nname='billing'\nsha256=['{hash}']\n{rights}\n");
        (Access::by_file(AccessFile::parse(&text).unwrap()), token)
    }

    fn rights_of(caller: &Caller) -> Vec<String> {
        let mut held = Vec::new();
        for (target, kind) in [(ORDERS, "orders"), (IDS, "@ids/orders")] {
            let of_target = NamespaceRight::ALL.into_iter();
            let of_target = of_target.filter(|right| caller.has_right_on(*right, target));
            held.extend(of_target.map(|right| format!("{} {kind}", right.name())));
        }
        if caller.may_force() {
            held.push("force".to_owned());
        }
        held
    }

    #[test]
    fn without_file_every_known_caller_takes_numbers_as_before() {
        let access = Access::by_role();
        let all = [
            "next orders",
            "current orders",
            "raise orders",
            "next @ids/orders",
            "current @ids/orders",
            "raise @ids/orders",
        ];
        for (shown, may_force, may_forward, is_local) in [
            (Credentials::Plaintext(LOOPBACK), true, true, true),
            (Credentials::Plaintext(ROUTABLE), true, true, true),
            (Credentials::OperatorCertificate, true, false, false),
            (Credentials::ServerCertificate, false, true, false),
            (Credentials::ClientCertificate("x"), false, false, false),
        ] {
            let caller = access.judge(shown).unwrap();
            assert_eq!(rights_of(&caller)[..6], all, "{shown:?}");
            assert_eq!(caller.may_force(), may_force, "{shown:?}");
            assert_eq!(caller.may_forward(), may_forward, "{shown:?}");
            assert_eq!(caller.is_local_operator(), is_local, "{shown:?}");
            assert!(caller.grants().is_none() && caller.may_see(ORDERS));
            assert!(caller.check_right(ClusterRight::Metrics).is_ok());
            let checked = caller.check_right_on(NamespaceRight::Next, ORDERS);
            assert!(checked.is_ok());
        }
        let token = Secret::generate().unwrap();
        let refused = access.judge(Credentials::Token(&token));
        assert_eq!(refused.err(), Some(BadCredentials::Token));
    }

    #[test]
    fn principal_has_the_same_rights_by_token_and_certificate() {
        for (rights, expected) in [
            ("", &[][..]),
            ("next=['orders']", &["next orders"]),
            ("next=['@ids/*']", &["next @ids/orders"]),
            ("current=['o*']", &["current orders"]),
            ("raise=['*']", &["raise orders"]),
            ("cluster=['admin']", &["force"]),
            ("cluster=['status','metrics']", &[]),
        ] {
            let (access, token) = file_with(rights);
            for shown in [
                Credentials::Token(&token),
                Credentials::ClientCertificate("billing"),
            ] {
                let caller = access.judge(shown).unwrap();
                assert_eq!(rights_of(&caller), expected, "{rights}");
                assert!(!caller.may_forward() && !caller.is_local_operator());
                assert!(caller.grants().is_some());
                for right in ClusterRight::ALL {
                    let holds = rights.contains(&format!("'{}'", right.name()));
                    assert_eq!(caller.has_right(right), holds, "{rights}");
                    assert_eq!(caller.check_right(right).is_ok(), holds, "{rights}");
                }
                let sees = expected.iter().any(|right| right.ends_with(" orders"));
                assert_eq!(caller.may_see(ORDERS), sees, "{rights}");
            }
        }
    }

    #[test]
    fn caller_without_principal_has_no_right() {
        let (access, _) = file_with("next=['*']\ncluster=['admin']");
        let unlisted = access.judge(Credentials::ClientCertificate("other"));
        let unlisted = unlisted.unwrap();
        assert!(rights_of(&unlisted).is_empty());
        assert!(unlisted.grants().is_some_and(Grants::is_empty));
        let missing = |name| {
            let target = GrantTarget::Namespace(name);
            let checked = unlisted.check_right_on(NamespaceRight::Next, target);
            checked.unwrap_err().to_string()
        };
        assert_eq!(missing("orders"), missing("other"));
        let why = unlisted.check_right(ClusterRight::Status).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("the right status on the cluster"), "{why}");
        let wrong = Secret::generate().unwrap();
        let refused = access.judge(Credentials::Token(&wrong));
        assert_eq!(refused.err(), Some(BadCredentials::Token));
        // Servers and operators stay what they are.
        let server = access.judge(Credentials::ServerCertificate).unwrap();
        assert!(server.may_forward() && server.grants().is_none());
        let operator = access.judge(Credentials::OperatorCertificate).unwrap();
        assert!(operator.may_force() && operator.grants().is_none());
    }

    /// Schedule: an endpoint without TLS listens on an address that other machines reach, beside
    /// the file.
    #[test]
    fn file_closes_connections_without_tls_from_other_machines() {
        let (access, _) = file_with("");
        for remote in [
            LOOPBACK,
            Ipv6Addr::LOCALHOST.into(),
            Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
        ] {
            let caller = access.judge(Credentials::Plaintext(remote)).unwrap();
            assert!(caller.is_local_operator());
        }
        for remote in [ROUTABLE, Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped().into()] {
            let refused = access.judge(Credentials::Plaintext(remote));
            assert_eq!(refused.err(), Some(BadCredentials::Plaintext));
        }
    }
}
