//! Who a certificate speaks for, and what else it says.

mod certificate;
mod identity;

pub use certificate::{BadCertificate, Certificate, EXPIRY_WARNING_DAYS};
pub use identity::{
    BadIdentity, DOMAIN_BYTES_MAX, PeerIdentity, Role, format_authority_uri, parse_authority_uri,
    validate_domain,
};
