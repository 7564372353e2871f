//! Cost of the check of a caller's role, which each call makes once, next to a load from memory.
//!
//! `cargo bench -p seqsvr-net`; compare within one run only.

#![expect(clippy::expect_used, reason = "the identities are right")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

use divan::Bencher;
use seqsvr_net::tls::{PeerIdentity, Role};
use seqsvr_net::{CallRule, CallShape, ConnectionCaller, PeerCertificate, Roles};

const RULE: CallRule = CallRule::new(
    CallShape::Sequence,
    Roles::new(&[Role::Client, Role::Alloc, Role::Admin]),
);

fn main() {
    divan::main();
}

#[divan::bench]
fn bare(bencher: Bencher<'_, '_>) {
    let word = AtomicU64::new(1);
    bencher.bench_local(|| black_box(&word).load(Acquire));
}

#[divan::bench]
fn role_check(bencher: Bencher<'_, '_>) {
    let identity = PeerIdentity::parse("seqsvr://prod/client/billing").expect("a caller");
    let certificate = PeerCertificate::new(identity, Vec::new());
    let caller = ConnectionCaller::Certified(&certificate);
    bencher.bench_local(|| {
        black_box(RULE)
            .check_role(black_box(caller), "/seqsvr.v1.Sequence/Next")
            .is_ok()
    });
}
