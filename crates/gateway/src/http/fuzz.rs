//! Arbitrary bytes as a request of an HTTP caller: as a query and as JSON they become a call, or
//! are rejected.

use super::numbers::fuzz as numbers;
use super::query;

pub(crate) fn fields(data: &[u8]) {
    numbers(data);
    if let Ok(text) = str::from_utf8(data) {
        for name in ["bizType", "batchSize", "token", ""] {
            query::value(text, name);
        }
    }
}
