#!/usr/bin/env bash
# crate rcgen 0.14.10 with OpenSSL 3.0: a certificate of a CA that was made with
# the default names is taken for self-signed, and fails.
#
# Guess: a leaf whose issuer is a CA of the trusted file verifies; the names in
# the subjects do not matter, since callers look at the DNS name.
# Seen: both certificates are "CN = rcgen self signed cert", so the leaf's issuer
# equals its subject. OpenSSL then looks no further: "self-signed certificate",
# error 18, although another key signed it. With any other name for the CA the
# same chain is OK.
# Why it matters: a test chain of rcgen fails in clients on OpenSSL (curl, Python,
# Node.js), with a text that points at the wrong certificate.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "chain"
version = "0.0.0"
edition = "2021"

[dependencies]
rcgen = { version = "=0.14.10", default-features = false, features = ["pem", "ring"] }
END
cat >src/main.rs <<'END'
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

fn main() {
    // The same chain twice: with the default names, and with a name for the CA.
    for name in [None, Some("Test CA")] {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if let Some(name) = name {
            ca.distinguished_name.push(DnType::CommonName, name);
        }
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let leaf_cert = leaf.signed_by(&key, &issuer).unwrap();
        let dir = if name.is_some() { "named" } else { "default" };
        std::fs::create_dir(dir).unwrap();
        std::fs::write(format!("{dir}/ca.pem"), ca_cert.pem()).unwrap();
        std::fs::write(format!("{dir}/leaf.pem"), leaf_cert.pem()).unwrap();
    }
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet
for chain in default named; do
    openssl x509 -in $chain/leaf.pem -noout -issuer
    openssl verify -CAfile $chain/ca.pem $chain/leaf.pem 2>&1 || true
done >seen.txt
diff -u - seen.txt <<'END'
issuer=CN = rcgen self signed cert
CN = rcgen self signed cert
error 18 at 0 depth lookup: self-signed certificate
error default/leaf.pem: verification failed
issuer=CN = Test CA
named/leaf.pem: OK
END
