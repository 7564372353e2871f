//! Who a certificate speaks for: `seqsvr://DOMAIN/ROLE/NAME`.
//!
//! Invariant: an identity has exactly one text, and a text is at most one identity, for every
//! reader.
//!
//! Schedule that breaks it: a CA of the operator signs `seqsvr://prod/client/x%2F..%2Fadmin%2Froot`
//! for a user of a portal. A reader that decodes percent signs and resolves dots takes the caller
//! for an admin.

use std::fmt::{self, Display, Formatter};

use seqsvr_core::namespace::{NAME_MAX, validate_name};

/// Scheme of identities, with what leads the domain.
const SCHEME: &str = "seqsvr://";
/// Maximum bytes of a domain. A longer one is rejected.
pub const DOMAIN_BYTES_MAX: usize = 63;
/// Maximum bytes of the text of an identity. A longer one is rejected.
const IDENTITY_BYTES_MAX: usize = SCHEME.len() + DOMAIN_BYTES_MAX + "/client/".len() + NAME_MAX;
/// Characters that parts of a URI begin with which no identity has, and what they mean.
const FOREIGN_PARTS: [(char, &str); 5] = [
    ('%', "percent-encoding"),
    ('?', "a query"),
    ('#', "a fragment"),
    ('@', "a user"),
    (':', "a port"),
];

/// Kind of process or person that a certificate is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A StoreSvr.
    Store,
    /// An AllocSvr.
    Alloc,
    /// An operator.
    Admin,
    /// A program that takes numbers.
    Client,
}

impl Role {
    /// Each role once.
    pub const ALL: [Role; 4] = [Role::Store, Role::Alloc, Role::Admin, Role::Client];

    /// Returns the word that an identity has for the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Store => "store",
            Role::Alloc => "alloc",
            Role::Admin => "admin",
            Role::Client => "client",
        }
    }

    /// Returns whether other processes connect to processes of this role.
    pub fn is_server(self) -> bool {
        matches!(self, Role::Store | Role::Alloc)
    }
}

impl Display for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text or certificate without an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadIdentity(pub(crate) String);

/// Identity of a peer or of this process, as a certificate has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    domain: String,
    role: Role,
    name: String,
}

impl PeerIdentity {
    /// Makes an identity from its parts.
    ///
    /// # Errors
    /// The domain or the name is not in its strict form.
    pub fn new(domain: &str, role: Role, name: &str) -> Result<PeerIdentity, BadIdentity> {
        validate_domain(domain).map_err(BadIdentity)?;
        validate_name(role.name(), name).map_err(BadIdentity)?;
        // A store may have its id as its name, in one form only.
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if role == Role::Store && is_number && name.starts_with('0') {
            let why = "a number that names a store is its id, without leading zeros";
            return Err(BadIdentity(format!("store name {name:?}: {why}")));
        }
        Ok(PeerIdentity {
            domain: domain.to_owned(),
            role,
            name: name.to_owned(),
        })
    }

    /// Parses the text of an identity, which has no other form than this type prints.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(uri: &str) -> Result<PeerIdentity, BadIdentity> {
        let bad = |why: &str| BadIdentity(format!("{uri:?}: {why}"));
        if uri.len() > IDENTITY_BYTES_MAX {
            let bytes = uri.len();
            let why = format!("a URI of {bytes} bytes, at most {IDENTITY_BYTES_MAX} are accepted");
            return Err(BadIdentity(why));
        }
        let Some(path) = uri.strip_prefix(SCHEME) else {
            return Err(bad(&format!("it does not begin with {SCHEME}")));
        };
        for (mark, part) in FOREIGN_PARTS {
            if path.contains(mark) {
                return Err(bad(&format!("it has {part} ({mark})")));
            }
        }
        let parts: Vec<&str> = path.split('/').collect();
        let [domain, role, name] = parts[..] else {
            let form = format!("it has not the form {SCHEME}DOMAIN/ROLE/NAME");
            return Err(bad(&form));
        };
        let Some(role) = Role::ALL.into_iter().find(|known| known.name() == role) else {
            let why = format!("role {role:?} is not store, alloc, admin or client");
            return Err(bad(&why));
        };
        PeerIdentity::new(domain, role, name)
    }

    /// Returns the name of the set of processes and people that trust each other.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns what the holder is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the name of the holder among those of its role.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Display for PeerIdentity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", self.domain, self.role, self.name)
    }
}

/// Checks the name of a domain.
///
/// # Errors
/// The text says which characters and lengths are accepted.
pub fn validate_domain(domain: &str) -> Result<(), String> {
    let is_end = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|c| is_end(*c))
            && bytes.last().is_some_and(|c| is_end(*c))
            && bytes.iter().all(|c| is_end(*c) || *c == b'-')
    };
    if domain.len() > DOMAIN_BYTES_MAX || !domain.split('.').all(is_label) {
        return Err(format!(
            "domain {domain:?}: use 1 to {DOMAIN_BYTES_MAX} of a-z 0-9 - with dots between parts, each of which begins and ends with a letter or digit"
        ));
    }
    Ok(())
}

/// Returns the URI of the CA of a domain.
pub fn format_authority_uri(domain: &str) -> String {
    format!("{SCHEME}{domain}")
}

/// Parses the URI of a CA. Returns its domain.
///
/// # Errors
/// The text is something else.
pub fn parse_authority_uri(uri: &str) -> Result<&str, BadIdentity> {
    let domain = uri.strip_prefix(SCHEME);
    domain
        .filter(|domain| validate_domain(domain).is_ok())
        .ok_or_else(|| BadIdentity(format!("{uri:?}: a CA has {SCHEME}DOMAIN")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_in_strict_form_is_parsed_and_printed_the_same() {
        let longest_name = "n".repeat(NAME_MAX);
        let longest_domain = "d".repeat(DOMAIN_BYTES_MAX);
        for (domain, role, name) in [
            ("prod", Role::Store, "s1"),
            ("prod", Role::Store, "1"),
            ("prod", Role::Store, "0a"),
            ("prod", Role::Alloc, "a-1.eu_WEST"),
            ("eu.prod-2", Role::Admin, "alice"),
            ("2.1", Role::Client, "007"),
            (&longest_domain, Role::Client, &longest_name),
        ] {
            let uri = format!("seqsvr://{domain}/{role}/{name}");
            let identity = PeerIdentity::parse(&uri).unwrap();
            assert_eq!(identity.to_string(), uri);
            let parts = (identity.domain(), identity.role(), identity.name());
            assert_eq!(parts, (domain, role, name));
            assert_eq!(PeerIdentity::new(domain, role, name), Ok(identity));
        }
    }

    #[test]
    fn any_other_form_is_no_identity_and_the_error_says_why() {
        let long = format!("seqsvr://prod/client/{}", "n".repeat(NAME_MAX + 1));
        let too_long = format!("{long}{}", "n".repeat(IDENTITY_BYTES_MAX));
        let long_domain = format!("seqsvr://{}/store/s", "d".repeat(DOMAIN_BYTES_MAX + 1));
        for (uri, why) in [
            ("", "does not begin with seqsvr://"),
            ("spiffe://prod/store/s1", "does not begin with seqsvr://"),
            ("SEQSVR://prod/store/s1", "does not begin with seqsvr://"),
            (" seqsvr://prod/store/s1", "does not begin with seqsvr://"),
            ("seqsvr:prod/store/s1", "does not begin with seqsvr://"),
            ("seqsvr://prod:7800/store/s1", "it has a port (:)"),
            ("seqsvr://prod:/store/s1", "it has a port (:)"),
            ("seqsvr://root@prod/store/s1", "it has a user (@)"),
            ("seqsvr://prod/store/s1?admin", "it has a query (?)"),
            ("seqsvr://prod/store/s1#admin", "it has a fragment (#)"),
            ("seqsvr://prod/store/s%31", "it has percent-encoding (%)"),
            ("seqsvr://prod/client/x%2Fadmin", "percent-encoding"),
            ("seqsvr://prod", "not the form"),
            ("seqsvr://prod/store", "not the form"),
            ("seqsvr://prod/store/s1/", "not the form"),
            ("seqsvr://prod//store/s1", "not the form"),
            ("seqsvr://prod/client/x/../../admin/y", "not the form"),
            ("seqsvr:///prod/store/s1", "not the form"),
            ("seqsvr://prod/root/s1", "role \"root\" is not"),
            ("seqsvr://prod/Store/s1", "role \"Store\" is not"),
            ("seqsvr://prod//s1", "role \"\" is not"),
            ("seqsvr:///store/s1", "domain \"\": use 1 to 63"),
            ("seqsvr://Prod/store/s1", "domain \"Prod\""),
            ("seqsvr://prod./store/s1", "domain \"prod.\""),
            ("seqsvr://.prod/store/s1", "domain \".prod\""),
            ("seqsvr://pr..od/store/s1", "domain \"pr..od\""),
            ("seqsvr://-prod/store/s1", "domain \"-prod\""),
            ("seqsvr://prod-/store/s1", "domain \"prod-\""),
            ("seqsvr://pr_od/store/s1", "domain \"pr_od\""),
            ("seqsvr://pröd/store/s1", "domain \"pröd\""),
            ("seqsvr://[fd00]/store/s1", "domain \"[fd00]\""),
            ("seqsvr://prod/store/", "store name \"\": use 1 to 64"),
            ("seqsvr://prod/client/..", "client name \"..\""),
            ("seqsvr://prod/client/a\\b", "client name"),
            ("seqsvr://prod/client/a b", "client name"),
            ("seqsvr://prod/client/a\n", "client name \"a\\n\""),
            ("seqsvr://prod/client/a\0", "client name"),
            ("seqsvr://prod/client/ä", "client name"),
            ("seqsvr://prod/store/01", "without leading zeros"),
            ("seqsvr://prod/store/0", "without leading zeros"),
            (&long, "client name"),
            (&too_long, "a URI of 230 bytes, at most 144 are accepted"),
            (&long_domain, "domain"),
        ] {
            let error = PeerIdentity::parse(uri).unwrap_err().to_string();
            assert!(error.contains(why), "{uri:?}: {error}");
        }
    }

    #[test]
    fn uri_of_an_authority_is_no_identity_and_the_reverse() {
        let uri = format_authority_uri("eu.prod");
        assert_eq!(parse_authority_uri(&uri), Ok("eu.prod"));
        assert!(PeerIdentity::parse(&uri).is_err());
        for uri in [
            "seqsvr://prod/",
            "seqsvr://prod/store/s1",
            "seqsvr://",
            "prod",
        ] {
            assert!(parse_authority_uri(uri).is_err(), "{uri}");
        }
    }
}
