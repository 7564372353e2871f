//! What a call needs: its shape, and the roles whose owners may make it.
//!
//! Invariant: no body byte of a call is read before its rule was checked, and a path without a rule
//! is rejected. So a new method is closed until its rule says who may call it.
//!
//! Schedule that breaks it: a client opens connections and sends the first half of a large
//! `Append`. If its role were checked in the method, the server would keep all halves until then.

use std::fmt;

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
    /// Whether it changes the cluster: each call is logged with its caller.
    pub is_change: bool,
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
            is_change: false,
        }
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
        Some(CallRule::new(shape, Roles::ANY))
    }

    /// Checks that a caller may call the method at `path`.
    ///
    /// # Errors
    /// Its certificate has another role, or has no identity.
    pub fn check(self, caller: ConnectionCaller<'_>, path: &str) -> Result<(), Status> {
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
