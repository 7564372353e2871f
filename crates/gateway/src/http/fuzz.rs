//! Arbitrary bytes as what an HTTP caller asks: as a query and as JSON they become a call, or are
//! refused.

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
