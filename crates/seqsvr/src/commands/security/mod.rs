//! Commands about who may call.

pub(super) mod cert;
