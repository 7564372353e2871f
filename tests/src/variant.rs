//! How the clusters of this process differ from ordinary ones: their AllocSvrs may be built without
//! lease checks (`--cfg unleased`), and all their namespaces may be strict. One setting for the
//! process, so that every scenario can be run under it as it is.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use seqsvr_client::{Alter, Client};
use seqsvr_core::namespace::{DEFAULT, KEYS, Limits};

static UNLEASED: AtomicBool = AtomicBool::new(false);
static STRICT: AtomicBool = AtomicBool::new(false);
static REBUILT: AtomicBool = AtomicBool::new(false);

/// From now on the binary is one built without lease checks. Set it before the first is built.
pub fn set_unleased() {
    UNLEASED.store(true, Relaxed);
}

/// From now on an upgrade goes to another build; else to the same one, which costs no building.
pub fn set_rebuilt() {
    REBUILT.store(true, Relaxed);
}

pub(crate) fn is_rebuilt() -> bool {
    REBUILT.load(Relaxed)
}

/// From now on all namespaces of new clusters are strict.
pub fn set_strict() {
    STRICT.store(true, Relaxed);
}

/// Environment of `cargo build` for the binary. Without lease checks it has a target directory of
/// its own, so that nobody takes it for the ordinary one.
pub(crate) fn build_env() -> &'static [(&'static str, &'static str)] {
    match UNLEASED.load(Relaxed) {
        true => &[
            ("RUSTFLAGS", "--cfg unleased"),
            ("CARGO_TARGET_DIR", "target/unleased"),
        ],
        false => &[],
    }
}

/// Limits of a namespace that a scenario makes.
pub(crate) fn limits() -> Limits {
    Limits {
        strict: STRICT.load(Relaxed),
        ..Limits::DEFAULT
    }
}

/// Alters the namespaces of a new cluster, by way of its StoreSvrs: an AllocSvr that is started
/// after that has never known them otherwise.
pub(crate) async fn alter(stores: &Client) {
    if !STRICT.load(Relaxed) {
        return;
    }
    for name in [DEFAULT, KEYS] {
        let alter = Alter {
            strict: Some(true),
            ..Alter::default()
        };
        let altered = stores.admin().alter_namespace(name, alter).await;
        assert!(altered.expect("it is altered").spec.limits.strict);
    }
}
