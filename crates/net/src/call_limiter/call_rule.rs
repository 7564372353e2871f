//! What a call needs: its shape, the roles whose owners may make it, and what principals need.
//!
//! Invariant: no body byte of a call is read before its rule was checked, and a path without a rule
//! is rejected. So a new method is closed until its rule says who may call it, and one whose rule
//! says nothing of principals is closed to them.
//!
//! Schedule that breaks it: a client opens connections and sends the first half of a large
//! `Append`. If its role were checked in the method, the server would keep all halves until then.

use std::fmt;

use seqsvr_access::{Caller, ClusterRight, Grants};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Status;

use crate::call_limiter::call_shape::CallShape;
use crate::peer::{ConnectionCaller, Role};

/// What one method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRule {
    /// How its messages are bounded.
    pub shape: CallShape,
    /// Who may call it, under TLS. Without TLS everybody may: then the server listens on loopback,
    /// or runs with `--insecure`.
    pub roles: Roles,
    /// What principals need, whose roles do not count.
    pub right: CallRight,
    /// Whether it changes the cluster: each call is logged with its caller.
    pub is_change: bool,
}

/// What a method needs of a caller whose rights are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRight {
    /// It is closed to them all.
    Closed,
    /// No right: it shows them nothing but what is granted.
    Open,
    /// The rights on the namespaces or families in its messages, each of which the method checks.
    Named,
    /// A right on the cluster.
    Cluster(ClusterRight),
}

/// A set of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// Every role.
    pub const ANY: Roles = Roles::new(&Role::ALL);
    /// That of operators.
    pub const OPERATORS: Roles = Roles::new(&[Role::Admin]);

    /// Returns the set of these roles.
    pub const fn new(roles: &[Role]) -> Roles {
        let (mut bits, mut i) = (0, 0);
        while i < roles.len() {
            bits |= 1 << roles[i] as u8;
            i += 1;
        }
        Roles(bits)
    }

    /// Returns whether a role is one of them.
    pub fn contains(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut roles = Role::ALL.into_iter().filter(|role| self.contains(*role));
        if let Some(first) = roles.next() {
            write!(f, "{first}")?;
        }
        roles.try_for_each(|role| write!(f, ", {role}"))
    }
}

impl CallRule {
    /// Makes a rule.
    pub const fn new(shape: CallShape, roles: Roles) -> CallRule {
        CallRule {
            shape,
            roles,
            right: CallRight::Closed,
            is_change: false,
        }
    }

    /// Returns the rule with what principals need.
    pub const fn for_principals(self, right: CallRight) -> CallRule {
        CallRule { right, ..self }
    }

    /// Returns the rule of a method that changes the cluster.
    pub const fn of_change(shape: CallShape, roles: Roles) -> CallRule {
        CallRule {
            is_change: true,
            ..CallRule::new(shape, roles)
        }
    }

    /// Returns the rule of a method of health or reflection, which every role may call; None: it is
    /// of another service.
    pub fn of_standard_service(path: &str) -> Option<CallRule> {
        let shape = CallShape::of_standard_service(path)?;
        Some(CallRule::new(shape, Roles::ANY).for_principals(CallRight::Open))
    }

    /// Checks that a caller may call the method at `path` over its connection.
    ///
    /// # Errors
    /// Its rights do not suffice, or those of its role.
    pub(crate) fn check(
        self,
        caller: &Caller,
        connection: ConnectionCaller<'_>,
        path: &str,
    ) -> Result<(), Status> {
        match caller.grants() {
            None => self.check_role(connection, path),
            Some(grants) => self.check_right(caller, grants, path),
        }
    }

    fn check_right(self, caller: &Caller, grants: &Grants, path: &str) -> Result<(), Status> {
        let why = match self.right {
            CallRight::Open | CallRight::Named => return Ok(()),
            CallRight::Cluster(right) if grants.has_right(right) => return Ok(()),
            CallRight::Cluster(right) => format!(
                "which needs the right {} on the cluster; grant it in the --auth-file",
                right.name()
            ),
            CallRight::Closed => {
                "which no principal may; use a certificate of the role admin".to_owned()
            }
        };
        let text = format!("{caller} may not call {path}, {why}");
        Err(RpcError::new(Reason::PermissionDenied, text).into())
    }

    /// Checks that the role of a connection's certificate may call the method at `path`.
    ///
    /// # Errors
    /// Its certificate has another role, or has no identity.
    pub fn check_role(self, caller: ConnectionCaller<'_>, path: &str) -> Result<(), Status> {
        let Some(certificate) = caller.certificate()? else {
            return Ok(());
        };
        let identity = certificate.identity();
        match self.roles.contains(identity.role()) {
            true => Ok(()),
            false => Err(RpcError::new(
                Reason::PermissionDenied,
                format!(
                    "{identity} may not call {path}, which is for the roles: {}; use a certificate of such a role",
                    self.roles
                ),
            )
            .into()),
        }
    }
}
