//! What a fuzzer calls (`cargo xtask fuzz`): each takes any bytes, and panics if something is
//! wrong.

/// What a Redis client sends.
pub fn redis(data: &[u8]) {
    crate::redis::fuzz::requests(data);
}

/// What an HTTP caller asks.
pub fn http(data: &[u8]) {
    crate::http::fuzz::fields(data);
}
