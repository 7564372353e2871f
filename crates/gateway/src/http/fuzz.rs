//! Arbitrary bytes as a request of an HTTP caller: as a query and as JSON they become a call, or
//! are rejected.

use super::json::fuzz_api_requests;
use super::query;

pub(crate) fn fuzz_fields(data: &[u8]) {
    fuzz_api_requests(data);
    if let Ok(text) = str::from_utf8(data) {
        for name in ["bizType", "batchSize", "token", ""] {
            query::find_values(text, name).for_each(drop);
        }
    }
}
