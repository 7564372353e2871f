//! Commands about ids: those that need no server, and those of families.

mod families;
mod new;
mod next;
mod opaque;

use crate::dev::{assert_bad_input, run_ok};
