//! Entry points of the fuzzer (`cargo xtask fuzz`): each takes any bytes, and panics if it finds an
//! error.

/// Reads bytes as a Redis client may send them.
pub fn redis(data: &[u8]) {
    crate::redis::fuzz::fuzz_requests(data);
}

/// Reads bytes as an HTTP caller may send them.
pub fn http(data: &[u8]) {
    crate::http::fuzz::fuzz_fields(data);
}
