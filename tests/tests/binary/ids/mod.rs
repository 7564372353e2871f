//! Commands about ids, which need no server.

mod new;
mod opaque;

use crate::dev::{assert_bad_input, run_ok};
