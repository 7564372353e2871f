//! TLS between the processes of a cluster: TLS 1.3 with a certificate at both ends, all of one CA.
//! A caller that shows something else than a certificate has the CA only ([`CaTransport`]).
//!
//! A certificate names its owner in one URI, `seqsvr://DOMAIN/ROLE/NAME` ([`PeerIdentity`]). A caller
//! checks that the certificate of a server is for the host that it called, and that its role is the
//! expected one; a server checks the role of a caller for each call
//! ([`CallRule`](crate::CallRule)). The CN has no meaning.

mod bad_tls_dir;
mod ca_transport;
mod first_byte;
mod handshake;
mod handshake_error;
mod lazy_tls;
pub(crate) mod private_files;
mod provider;
mod tls_dir;
mod tls_transport;

pub use crate::peer::certificate::{BadCertificate, Certificate, EXPIRY_WARNING_DAYS};
pub use crate::peer::identity::{
    BadIdentity, DOMAIN_BYTES_MAX, PeerIdentity, Role, format_authority_uri, parse_authority_uri,
    validate_domain,
};
pub use bad_tls_dir::BadTlsDir;
pub use ca_transport::CaTransport;
pub use private_files::check_secret_file;
pub use tls_dir::TlsDir;
pub use tls_transport::TlsTransport;
