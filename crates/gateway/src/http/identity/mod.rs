//! Who sends a request, and what its path needs of it.
//!
//! Invariants:
//! - A request is judged by what it shows itself, before it has any effect: by one token, or else
//!   by its connection. Nothing of another request of the connection counts.
//! - A path without a row in [`ROUTE_RULES`] is answered 404 before any handler, so a new route is
//!   closed until its row says what it needs.
//! - A wrong token is answered after a second, counted in the log, and never made good by a
//!   certificate.
//!
//! Schedules that break it: a proxy sends the requests of many callers over one connection, and the
//! server judges all of them by the first. Or the part for the page gets a path that shows the
//! cluster, and callers without any right read it.

mod request_judge;
mod route_rule;

pub(super) use request_judge::{Refusal, RequestJudge, TagJudge};
pub use route_rule::{ROUTE_RULES, RouteRight, RouteRule};
