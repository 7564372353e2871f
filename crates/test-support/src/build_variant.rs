//! Differences between the clusters of this process and ordinary ones. The AllocSvrs may be built
//! without lease checks (`--cfg unleased`), and all namespaces may be strict. The setting applies
//! to the whole process, so that every scenario runs under it without changes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use seqsvr_client::{Client, NamespaceChange};
use seqsvr_core::namespace::{DEFAULT_KEYED_NAMESPACE, DEFAULT_NAMESPACE, NamespaceLimits};

static IS_UNLEASED: AtomicBool = AtomicBool::new(false);
static IS_STRICT: AtomicBool = AtomicBool::new(false);
static IS_REBUILT: AtomicBool = AtomicBool::new(false);

/// Selects a binary without lease checks. Call it before the first build.
pub fn set_unleased() {
    IS_UNLEASED.store(true, Relaxed);
}

/// Makes an upgrade use another build. Without it an upgrade uses the same build, which needs no
/// compilation.
pub fn set_rebuilt() {
    IS_REBUILT.store(true, Relaxed);
}

/// Returns whether an upgrade uses another build, as in an acceptance run.
pub fn is_rebuilt() -> bool {
    IS_REBUILT.load(Relaxed)
}

/// Makes all namespaces of new clusters strict.
pub fn set_strict() {
    IS_STRICT.store(true, Relaxed);
}

/// Returns the environment of `cargo build` for the binary. A binary without lease checks has its
/// own target directory, so that it is never confused with the ordinary one.
pub(crate) fn build_env() -> &'static [(&'static str, &'static str)] {
    match IS_UNLEASED.load(Relaxed) {
        true => &[
            ("RUSTFLAGS", "--cfg unleased"),
            ("CARGO_TARGET_DIR", "target/unleased"),
        ],
        false => &[],
    }
}

/// Returns the limits of a namespace that a scenario creates.
pub(crate) fn namespace_limits() -> NamespaceLimits {
    NamespaceLimits {
        strict: IS_STRICT.load(Relaxed),
        ..NamespaceLimits::DEFAULT
    }
}

/// Alters the namespaces of a new cluster through its StoreSvrs, so that an AllocSvr started
/// afterwards has only ever seen the altered settings.
pub(crate) async fn alter_namespaces(stores: &Client) {
    if !IS_STRICT.load(Relaxed) {
        return;
    }
    for name in [DEFAULT_NAMESPACE, DEFAULT_KEYED_NAMESPACE] {
        let alter = NamespaceChange {
            strict: Some(true),
            ..NamespaceChange::default()
        };
        let altered = stores.admin().alter_namespace(name, alter).await;
        assert!(altered.expect("it is altered").spec.limits.strict);
    }
}
